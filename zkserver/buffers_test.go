package zkserver

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// limitMemory sets Go's memory limit until the end of the test.
func limitMemory(t *testing.T, bytes int64) {
	before := debug.SetMemoryLimit(bytes)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
}

// liveHeap returns the bytes of the heap that are in use.
func liveHeap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second call frees what pools keep
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Many clients send nearly a whole request of a megabyte. All of them together take a bounded part of the memory, and
// other clients go on. The requests must arrive in time.
func TestRequestsThatAreNotCompleteTakeBoundedMemory(t *testing.T) {
	const clients = 200
	limitMemory(t, 128<<20) // a sixteenth of it is for requests
	inBubble(t, Config{MaxSessionTimeout: time.Hour}, func(t *testing.T, s *Server, dial func() *rawClient) {
		other := dial()
		other.connect(time.Hour, nil)
		other.create("/n", 0)
		var cs []*rawClient
		for range clients {
			c := dial()
			c.connect(time.Hour, nil)
			cs = append(cs, c)
		}
		synctest.Wait()
		before := liveHeap()
		whole := frameOf(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/n", Data: make([]byte, 1_000_000), Version: -1})
		for _, c := range cs {
			go c.nc.Write(whole[:len(whole)-1])
		}
		synctest.Wait()
		if grown := liveHeap() - before; grown > 24<<20 { // and Go's room to grow a buffer
			t.Errorf("%d clients with a request each take %d MiB", clients, grown>>20)
		}
		if _, code := other.exists("/n", false); code != zkproto.CodeOK {
			t.Errorf("another client: %v", code)
		}
		// In each round, the slow ones are closed and others take their place.
		if a := other.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/n", Data: make([]byte, 1_000_000), Version: -1}); a.Err != zkproto.CodeOK {
			t.Errorf("another client's long request: %v", a.Err)
		}
		time.Sleep(clients / 8 * 30 * time.Second)
		synctest.Wait()
		if n := s.Stats().Connections; n != 1 {
			t.Errorf("%d connections; want only the other client's", n)
		}
		if st := s.Stats(); st.Refused["buffer_bytes"] == 0 || st.BytesWaiting != 0 {
			t.Errorf("afterwards: %+v", st)
		}
	})
}

// When everything has been applied and all clients have gone, nothing is counted any more.
func TestBuffersAreGivenBack(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		long := frameOf(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/n", Data: make([]byte, 100_000), Version: -1})
		watches := &zkproto.SetWatches2Request{}
		for i := range 3000 {
			watches.Exist = append(watches.Exist, fmt.Sprint("/", i))
		}
		for name, bytes := range map[string][]byte{
			"a short request":      frameOf(zkproto.OpExists, &zkproto.ReadRequest{Path: "/n"}),
			"a long request":       long,
			"portions":             frameOf(zkproto.OpSetWatches2, watches),
			"several":              append(frameOf(zkproto.OpExists, &zkproto.ReadRequest{Path: "/n"}), long...),
			"half a request":       long[:50_000],
			"no header":            []byte(frame(3, "abc")),
			"longer than allowed":  []byte(frame(1<<30, "abc")),
			"an unknown operation": frameOf(777, raw("")),
		} {
			c := dial()
			c.connect(10*time.Second, nil)
			go func() {
				for {
					if _, err := c.in.Discard(1); err != nil {
						return
					}
				}
			}()
			c.nc.Write(bytes)
			synctest.Wait()
			c.nc.Close()
			synctest.Wait()
			if n := s.buffers.taken.Load(); n != 0 {
				t.Errorf("%s: %d bytes are counted", name, n)
			}
		}
	})
}

// Until a client has a session and has authenticated as required, its requests are short. A client that sends its login
// and the next requests together need not wait.
func TestRequestsAreShortBeforeTheLogin(t *testing.T) {
	connect := zkproto.EndFrame((&zkproto.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, 16)}).Append(zkproto.BeginFrame(nil)), 0)
	auth := func(password string) []byte {
		return frameOf(zkproto.OpAuth, &zkproto.AuthRequest{Scheme: "digest", Auth: []byte("me:" + password)})
	}
	create := func(n int) []byte {
		return frameOf(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/n", Data: make([]byte, n), ACL: openACL})
	}
	needed := Config{Users: map[string]string{"me": "secret"}, RequireAuth: []string{"digest"}}
	for _, tt := range []struct {
		name    string
		cfg     Config
		send    [][]byte
		made    bool
		refused int64 // -1: the connection is over before, or the request is too long
	}{
		{"no login is needed", Config{}, [][]byte{connect, create(1_000_000)}, true, 0},
		{"short, without the login", needed, [][]byte{connect, create(3000)}, false, 0},
		{"long, without the login", needed, [][]byte{connect, create(5000)}, false, 1},
		{"long, after the login", needed, [][]byte{connect, auth("secret"), create(1_000_000)}, true, 0},
		{"long, after a wrong login", needed, [][]byte{connect, auth("guess"), create(1_000_000)}, false, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, tt.cfg, func(t *testing.T, s *Server, dial func() *rawClient) {
				c := dial()
				go func() {
					for {
						if _, err := c.in.Discard(1); err != nil {
							return
						}
					}
				}()
				for _, b := range tt.send {
					c.nc.Write(b)
				}
				synctest.Wait()
				if st := s.Stats(); st.Znodes == 5 != tt.made || tt.refused >= 0 && st.Refused[LimitFrame] != tt.refused {
					t.Errorf("%d nodes, %d requests were too long", st.Znodes, st.Refused[LimitFrame])
				}
			})
		})
	}
}

// The nodes have a bound if there is a limit of memory: a server that has no room for another node says so, and lives.
func TestNodesTakeBoundedMemory(t *testing.T) {
	limitMemory(t, 40<<20)
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		create := func(i int) zkproto.Code {
			return c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: fmt.Sprint("/", i), Data: make([]byte, 1_000_000), ACL: openACL}).Err
		}
		n := 0
		for ; n < 100; n++ {
			if code := create(n); code != zkproto.CodeOK {
				if code != zkproto.CodeQuotaExceeded {
					t.Errorf("create: %v", code)
				}
				break
			}
		}
		if n != 20 {
			t.Fatalf("%d nodes of a megabyte; want 20", n)
		}
		if a := c.call(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{
			{Op: zkproto.OpDelete, Path: "/0", Version: -1},
			{Op: zkproto.OpCreate, Path: "/x", Data: make([]byte, 10_000), ACL: openACL}}}); a.Err != zkproto.CodeOK {
			t.Error(a.Err)
		}
		c.create("/0", 0)
		if a := c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/0", Data: make([]byte, 1_000_000), Version: -1}); a.Err != zkproto.CodeOK {
			t.Errorf("setData, with room for it: %v", a.Err)
		}
		if a := c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/x", Data: make([]byte, 1_000_000), Version: -1}); a.Err != zkproto.CodeQuotaExceeded {
			t.Errorf("setData, without: %v", a.Err)
		}
		if a := c.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/x", Version: -1}); a.Err != zkproto.CodeOK {
			t.Errorf("setData that makes a node shorter: %v", a.Err)
		}
		if n := s.Stats().Refused["data_bytes"]; n != 2 {
			t.Errorf("met %d times; want 2", n)
		}
	})
}

func TestDefaultsFollowTheLimitOfMemory(t *testing.T) {
	for _, tt := range []struct{ memory, buffers, data int64 }{
		{32 << 20, 16 << 20, 16 << 20},
		{800 << 20, 200 << 20, 400 << 20},
		{16 << 30, 1 << 30, 8 << 30},
		{1<<63 - 1, 1 << 30, 1<<63 - 1},
	} {
		limitMemory(t, tt.memory)
		if l := (Limits{}).withDefaults(); int64(l.BufferBytes) != tt.buffers || int64(l.DataBytes) != tt.data {
			t.Errorf("a limit of %d: %d and %d; want %d and %d", tt.memory, l.BufferBytes, l.DataBytes, tt.buffers, tt.data)
		}
	}
}
