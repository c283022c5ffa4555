package zkserver

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

func frame(length int32, body string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(length))) + body
}

func TestHostileBytesEndTheirConnectionAlone(t *testing.T) {
	const header = "\x00\x00\x00\x01\x00\x00\x00\x01" // create
	for _, tt := range []struct {
		name, bytes string
		connected   bool
		cutOff      bool // the client cuts the connection after the bytes
	}{
		{"2 GB before the handshake", frame(0x7fffffff, "x"), false, false},
		{"2 GB", frame(0x7fffffff, "x"), true, false},
		{"just above the limit", frame(zkproto.MaxFrame+1, "x"), true, false},
		{"a megabyte before the handshake", frame(1<<20-1, "x"), false, false},
		{"negative length", frame(-1, "x"), true, false},
		{"most negative length", frame(-1<<31, "x"), false, false},
		{"empty frame instead of a handshake", frame(0, ""), false, false},
		{"empty frame", frame(0, ""), true, false},
		{"half a header", frame(5, "\x00\x00\x00\x01\x00"), true, false},
		{"truncated length", "\x00\x00", true, true},
		{"truncated frame", frame(100, header), true, true},
		{"truncated handshake", frame(44, strings.Repeat("\x00", 20)), false, true},
		{"handshake with a password that is longer than the frame", frame(28, strings.Repeat("\x00", 24)+"\x7f\xff\xff\xff"), false, false},
		{"HTTP", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", false, false},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, l := serve(t, Config{})
			bystander := dialRaw(t, l)
			bystander.connect(10*time.Second, nil)
			c := dialRaw(t, l)
			if tt.connected {
				c.connect(10*time.Second, nil)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := c.nc.Write([]byte(tt.bytes)); err != nil {
				t.Fatal(err)
			}
			if tt.cutOff {
				c.nc.(interface{ CloseWrite() error }).CloseWrite()
			}
			c.closed()
			runtime.ReadMemStats(&after)
			if grown := after.TotalAlloc - before.TotalAlloc; grown > 4<<20 {
				t.Errorf("the server allocated %d bytes for it", grown)
			}
			if a := bystander.call(zkproto.OpPing, nil); a.Err != zkproto.CodeOK {
				t.Errorf("another client's ping: %v", a.Err)
			}
			if s.Err() != nil {
				t.Error(s.Err())
			}
		})
	}
}

// An invalid body after a valid header is answered and harms no other client: the frames stay in
// step.
func TestMalformedBodiesAreAnswered(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		for op, body := range map[zkproto.Op]string{
			zkproto.OpCreate:        "\x7f\xff\xff\xff",
			zkproto.OpDelete:        "\x00\x00\x00\x02/a",
			zkproto.OpExists:        "\xff\xff\xff\xf0",
			zkproto.OpSetData:       "",
			zkproto.OpSetWatches:    "\x00\x00\x00\x00\x00\x00\x00\x00\x7f\xff\xff\xff",
			zkproto.OpMulti:         "\x00\x00\x00\x04\x00\xff\xff\xff\xff\x00\x00\x00\x02/a\x00", // a read inside
			zkproto.OpRemoveWatches: "\x00",
			zkproto.OpSetACL:        "\x00\x00\x00\x02/a\x7f\xff\xff\xff",
			zkproto.OpCreateTTL:     "\x00\x00\x00\x02/a",
			zkproto.OpMultiRead:     "\x00\x00\x00\x02\x00\xff\xff\xff\xff\x00\x00\x00\x02/a\x00\x00\x00\x00", // a write inside
			zkproto.OpAddWatch:      "\x00\x00\x00\x02/a\x00\x00\x00\x07",                                     // an unknown mode
			zkproto.OpSetWatches2:   "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		} {
			if a := c.call(op, raw(body)); a.Err != zkproto.CodeMarshallingError {
				t.Errorf("%v: %v; want %v", op, a.Err, zkproto.CodeMarshallingError)
			}
		}
		c.create("/still-here", zkproto.FlagPersistent)
	})
}

type raw string

func (r raw) Append(b []byte) []byte { return append(b, r...) }

func TestClientThatDoesNotReadIsDropped(t *testing.T) {
	big := bytes.Repeat([]byte("x"), 100_000)
	for _, tt := range []struct {
		name     string
		limits   Limits
		requests int
		within   time.Duration
	}{
		{"too long", Limits{UnreadBytes: 1 << 30, UnreadTime: 5 * time.Second}, 2, 6 * time.Second},
		{"too many requests", Limits{Outstanding: 4, UnreadBytes: 1 << 30, UnreadTime: 5 * time.Second}, 4, 6 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(Config{Limits: tt.limits})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				c, other := pipe(t, s), pipe(t, s)
				c.connect(40*time.Second, nil)
				other.connect(40*time.Second, nil)
				c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: big, ACL: openACL})
				get := (&zkproto.RequestHeader{Xid: 1, Op: zkproto.OpGetData}).Append(zkproto.BeginFrame(nil))
				get = zkproto.EndFrame((&zkproto.ReadRequest{Path: "/big"}).Append(get), 0)
				for range tt.requests {
					c.nc.Write(get) // fails if the server has closed the connection
				}
				if a := other.call(zkproto.OpPing, nil); a.Err != zkproto.CodeOK {
					t.Errorf("another client's ping: %v", a.Err)
				}
				time.Sleep(tt.within)
				synctest.Wait()
				if n := s.connections(); n != 1 {
					t.Errorf("%d connections; want only the other client's", n)
				}
			})
		})
	}
}

func TestManyRequestsInFlightAreAllAnswered(t *testing.T) {
	_, l := serve(t, Config{})
	c := dialRaw(t, l)
	c.connect(10*time.Second, nil)
	const n = 5000 // far more than a connection may have in flight
	go func() {
		for range n {
			c.send(zkproto.OpExists, &zkproto.ReadRequest{Path: "/"})
		}
	}()
	for i := range n {
		if a := c.read(); a.Xid != int32(i+1) || a.Err != zkproto.CodeOK {
			t.Fatalf("answer %d: %+v", i, a.ReplyHeader)
		}
	}
}

// FuzzConnection sends arbitrary bytes after a valid handshake. The server must still serve
// others.
func FuzzConnection(f *testing.F) {
	request := func(op zkproto.Op, m message) []byte {
		b := (&zkproto.RequestHeader{Xid: 1, Op: op}).Append(zkproto.BeginFrame(nil))
		return zkproto.EndFrame(m.Append(b), 0)
	}
	f.Add([]byte(frame(0x7fffffff, "x")))
	f.Add([]byte(frame(3, "abc")))
	f.Add(request(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/a", ACL: openACL, Flags: 3}))
	f.Add(request(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{{Op: zkproto.OpCreate, Path: "/a", ACL: openACL}, {Op: zkproto.OpCheck, Path: "/a"}}}))
	f.Add(request(zkproto.OpSetWatches, &zkproto.SetWatchesRequest{Data: []string{"/a", "/"}, Child: []string{""}}))
	f.Add(request(zkproto.OpCloseSession, raw("")))
	f.Add(request(zkproto.OpAuth, &zkproto.AuthRequest{Scheme: "digest", Auth: []byte("u:p")}))
	f.Add(request(zkproto.OpSetACL, &zkproto.SetACLRequest{Path: "/", ACL: []zkproto.ACL{{Perms: 31, Scheme: "ip", ID: "::1/7"}}, Version: -1}))
	f.Add(request(zkproto.OpCreateTTL, &zkproto.CreateTTLRequest{Path: "/t", ACL: openACL, Flags: 6, TTL: 1}))
	f.Add(request(zkproto.OpMultiRead, &zkproto.MultiReadRequest{Ops: []zkproto.MultiReadOp{{Op: zkproto.OpGetData, Path: "/"}, {Op: zkproto.OpGetChildren, Path: ""}}}))
	f.Add(request(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: "", Mode: 1}))
	f.Add(request(zkproto.OpSetWatches2, &zkproto.SetWatches2Request{Persistent: []string{"x"}, PersistentRecursive: []string{"", "/zookeeper"}}))
	f.Add(request(zkproto.OpGetAllChildrenNumber, &zkproto.GetAllChildrenNumberRequest{Path: "/zookeeper"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		synctest.Test(t, func(t *testing.T) {
			s, err := Open(Config{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c, other := pipe(t, s), pipe(t, s)
			c.connect(10*time.Second, nil)
			other.connect(10*time.Second, nil)
			go func() { // it reads, so that the server can write
				for {
					if _, err := c.in.Discard(1); err != nil {
						return
					}
				}
			}()
			c.nc.Write(b)
			if _, code := other.exists("/zookeeper", false); code != zkproto.CodeOK {
				t.Errorf("/zookeeper: %v", code)
			}
			c.nc.Close()
		})
	})
}

// A client asks for much, reads nothing and disconnects. The server builds none of its answers,
// but executes its writes.
func TestNobodyWorksForWhoHasGone(t *testing.T) {
	const size, requests = 200_000, 250
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c, other := dial(), dial()
		c.connect(40*time.Second, nil)
		other.connect(40*time.Second, nil)
		other.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: make([]byte, size), ACL: openACL})
		synctest.Wait()
		var gone *conn
		worked := int64(0)
		held(s, func() {
			for range requests {
				c.send(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"})
			}
			c.send(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/last", ACL: openACL})
		}, nil)
		synctest.Wait() // it is not served any more, since it does not read
		s.queue.push(&request{kind: kindCall, call: func() {
			for _, c := range s.owner.watchers {
				if c.owned.flow.Waiting() > 0 {
					gone = c
				}
			}
		}})
		synctest.Wait()
		before := gone.unread.Load()
		c.nc.Close()
		synctest.Wait()
		worked = gone.unread.Load() - before
		if worked > 2*size {
			t.Errorf("%d bytes of answers for a disconnected client", worked)
		}
		if _, code := other.exists("/last", false); code != zkproto.CodeOK {
			t.Errorf("the disconnected client's last write: %v", code)
		}
		if n := s.Stats().Outstanding; n != 0 {
			t.Errorf("%d requests count as unanswered", n)
		}
	})
}
