package zkserver

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/sched"
	"holdfast/zkserver/internal/store"
)

// assertRefused fails the test unless clients met exactly these limits, each that many times.
func assertRefused(t *testing.T, s *Server, want map[Limit]int64) {
	t.Helper()
	for l, n := range s.Stats().Refused {
		if n != want[l] {
			t.Errorf("limit %s was met %d times; want %d", l, n, want[l])
		}
	}
}

// from connects a client from the given address.
func from(t *testing.T, s *Server, ip string) *rawClient {
	client, server := net.Pipe()
	s.accept(addressed{server, &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}})
	return newRaw(t, client)
}

type addressed struct {
	net.Conn
	remote net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.remote }

func TestConnectionsInTotalAreLimited(t *testing.T) {
	inBubble(t, Config{Limits: Limits{Connections: 2}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		a, b := dial(), dial()
		a.connect(10*time.Second, nil)
		b.connect(10*time.Second, nil)
		dial().closed()
		assertRefused(t, s, map[Limit]int64{LimitConnections: 1})
		a.nc.Close()
		synctest.Wait()
		dial().connect(10*time.Second, nil)
		b.call(zkproto.OpPing, nil)
	})
}

func TestConnectionsPerAddressAreLimited(t *testing.T) {
	for _, tt := range []struct{ name, first, same, other string }{
		{"IPv4", "10.0.0.1", "10.0.0.1", "10.0.0.2"},
		{"IPv4 in IPv6", "10.0.0.1", "::ffff:10.0.0.1", "::ffff:10.0.0.2"},
		{"a /64 of IPv6", "2001:db8::1", "2001:db8:0:0:ffff::", "2001:db8:0:1::1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, Config{Limits: Limits{ConnectionsPerAddress: 2}}, func(t *testing.T, s *Server, dial func() *rawClient) {
				a, b := from(t, s, tt.first), from(t, s, tt.same)
				a.connect(10*time.Second, nil)
				b.connect(10*time.Second, nil)
				from(t, s, tt.first).closed()
				from(t, s, tt.same).closed()
				from(t, s, tt.other).connect(10*time.Second, nil)
				for range 3 {
					dial().connect(10*time.Second, nil) // no address
				}
				assertRefused(t, s, map[Limit]int64{LimitPerAddress: 2})
				b.nc.Close()
				synctest.Wait()
				from(t, s, tt.same).connect(10*time.Second, nil)
			})
		})
	}
}

func TestNewConnectionsPerSecondAreLimited(t *testing.T) {
	inBubble(t, Config{Limits: Limits{ConnectionsPerSecond: 10}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		attempt := func(n int, ip string) (accepted int64) {
			before := s.Stats().ConnectionsAccepted
			for range n {
				from(t, s, ip).nc.Close()
			}
			return s.Stats().ConnectionsAccepted - before
		}
		if n := attempt(100, "10.0.0.1"); n != 20 {
			t.Errorf("%d connections at once; want 20", n)
		}
		if n := attempt(5, "10.0.0.2"); n != 5 {
			t.Errorf("%d connections from another address; want all 5", n)
		}
		time.Sleep(time.Second)
		if n := attempt(100, "10.0.0.1"); n != 10 {
			t.Errorf("%d connections a second later; want 10", n)
		}
		assertRefused(t, s, map[Limit]int64{LimitConnectRate: 170})
		time.Sleep(2 * forgetInterval)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.addresses) != 0 {
			t.Errorf("%d addresses are remembered without need", len(s.addresses))
		}
	})
}

func TestAddressesThatAreConnectedAreRemembered(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := from(t, s, "10.0.0.1")
		c.connect(40*time.Second, nil)
		for range 6 {
			time.Sleep(20 * time.Second)
			c.call(zkproto.OpPing, nil)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if a := s.addresses[netip.MustParseAddr("10.0.0.1")]; a == nil || a.conns != 1 {
			t.Errorf("got %+v; want one connection", a)
		}
	})
}

func TestFramesAreLimited(t *testing.T) {
	inBubble(t, Config{Limits: Limits{FrameBytes: 200}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/a", Data: make([]byte, 100), ACL: openACL})
		c.nc.Write([]byte(frame(201, "")))
		c.closed()
		assertRefused(t, s, map[Limit]int64{LimitFrame: 1})
	})
}

func TestWatchesAreLimited(t *testing.T) {
	// Each function asks for one watch on path.
	ways := map[string]func(c *rawClient, path string) zkproto.Code{
		"exists, no node": func(c *rawClient, path string) zkproto.Code {
			_, code := c.exists(path, true)
			if code == zkproto.CodeNoNode {
				return zkproto.CodeOK
			}
			return code
		},
		"get": func(c *rawClient, path string) zkproto.Code {
			return c.call(zkproto.OpGetData, &zkproto.ReadRequest{Path: path, Watch: true}).Err
		},
		"children": func(c *rawClient, path string) zkproto.Code {
			return c.call(zkproto.OpGetChildren2, &zkproto.ReadRequest{Path: path, Watch: true}).Err
		},
		"persistent": func(c *rawClient, path string) zkproto.Code {
			return c.call(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: path, Mode: zkproto.ModePersistentRecursive}).Err
		},
		"after a reconnect": func(c *rawClient, path string) zkproto.Code {
			return c.call(zkproto.OpSetWatches2, &zkproto.SetWatches2Request{SetWatchesRequest: zkproto.SetWatchesRequest{RelativeZxid: 1 << 40, Exist: []string{path + "none"}}}).Err
		},
	}
	for name, watch := range ways {
		for _, tt := range []struct {
			limits   Limits
			met      Limit
			mayOther bool
		}{
			{Limits{WatchesPerConnection: 3}, LimitConnWatches, true},
			{Limits{Watches: 3}, LimitWatches, false},
		} {
			t.Run(fmt.Sprint(name, ", ", tt.met), func(t *testing.T) {
				inBubble(t, Config{Limits: tt.limits}, func(t *testing.T, s *Server, dial func() *rawClient) {
					c, other := dial(), dial()
					c.connect(10*time.Second, nil)
					other.connect(10*time.Second, nil)
					paths := []string{"/a", "/b", "/c", "/d"}
					if name != "exists, no node" {
						for _, path := range paths {
							other.create(path, 0)
						}
					}
					for i, path := range paths {
						want := zkproto.CodeOK
						if i == 3 {
							want = zkproto.CodeQuotaExceeded
						}
						if code := watch(c, path); code != want {
							t.Errorf("watch %d: %v; want %v", i+1, code, want)
						}
					}
					synctest.Wait()
					assertRefused(t, s, map[Limit]int64{tt.met: 1})
					if name == "after a reconnect" {
						c.closed()
					} else if n := s.Stats().Watches; n != 3 {
						t.Errorf("%d watches; want 3", n)
					} else if name == "get" {
						if code := watch(c, "/a"); code != zkproto.CodeOK {
							t.Errorf("a watch that is already set: %v", code)
						}
						other.call(zkproto.OpSetData, &zkproto.SetDataRequest{Path: "/a", Version: -1})
						c.event()
						if code := watch(c, "/d"); code != zkproto.CodeOK {
							t.Errorf("after one watch is gone: %v", code)
						}
						return
					}
					want := zkproto.CodeOK
					if !tt.mayOther && name != "after a reconnect" {
						want = zkproto.CodeQuotaExceeded
					}
					if _, code := other.exists("/zookeeper", true); code != want {
						t.Errorf("another client's watch: %v; want %v", code, want)
					}
				})
			})
		}
	}
}

func TestLongPathsCountAsSeveralWatches(t *testing.T) {
	inBubble(t, Config{Limits: Limits{WatchesPerConnection: 16}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		if _, code := c.exists("/"+strings.Repeat("x", 4095), true); code != zkproto.CodeQuotaExceeded {
			t.Errorf("4096 bytes: %v", code)
		}
		if _, code := c.exists("/"+strings.Repeat("x", 4094), true); code != zkproto.CodeNoNode {
			t.Errorf("4095 bytes: %v", code)
		}
	})
}

func TestTransactionsAreLimited(t *testing.T) {
	inBubble(t, Config{Limits: Limits{MultiOps: 3}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		check := zkproto.MultiOp{Op: zkproto.OpCheck, Path: "/", Version: -1}
		read := zkproto.MultiReadOp{Op: zkproto.OpGetData, Path: "/"}
		for n, want := range map[int]zkproto.Code{3: zkproto.CodeOK, 4: zkproto.CodeBadArguments} {
			var ops []zkproto.MultiOp
			var reads []zkproto.MultiReadOp
			for range n {
				ops, reads = append(ops, check), append(reads, read)
			}
			if a := c.call(zkproto.OpMulti, &zkproto.MultiRequest{Ops: ops}); a.Err != want {
				t.Errorf("transaction of %d: %v; want %v", n, a.Err, want)
			}
			if a := c.call(zkproto.OpMultiRead, &zkproto.MultiReadRequest{Ops: reads}); a.Err != want {
				t.Errorf("multi-read of %d: %v; want %v", n, a.Err, want)
			}
		}
		assertRefused(t, s, map[Limit]int64{LimitMulti: 2})
	})
}

func TestPathsAreLimited(t *testing.T) {
	inBubble(t, Config{Limits: Limits{PathBytes: 10}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		long := "/123456789x"
		create := &zkproto.CreateRequest{Path: long, ACL: openACL}
		for _, r := range []struct {
			op zkproto.Op
			m  message
		}{
			{zkproto.OpCreate, create},
			{zkproto.OpCreate2, create},
			{zkproto.OpExists, &zkproto.ReadRequest{Path: long, Watch: true}},
			{zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: long}},
			{zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{
				{Op: zkproto.OpCreate, Path: "/short", ACL: openACL}, {Op: zkproto.OpCreate, Path: long, ACL: openACL}}}},
		} {
			if a := c.call(r.op, r.m); a.Err != zkproto.CodeBadArguments {
				t.Errorf("%v: %v; want %v", r.op, a.Err, zkproto.CodeBadArguments)
			}
		}
		assertRefused(t, s, map[Limit]int64{LimitPath: 5})
		c.create("/123456789", zkproto.FlagPersistentSequential)
		if a := c.call(zkproto.OpSetWatches, &zkproto.SetWatchesRequest{Exist: []string{long}}); a.Err != zkproto.CodeBadArguments {
			t.Errorf("watches after a reconnect: %v", a.Err)
		}
		if st := s.Stats(); st.Watches != 0 || st.Znodes != 5 {
			t.Errorf("%d watches and %d nodes; want 0 and 5", st.Watches, st.Znodes)
		}
	})
}

func TestChildrenAndEphemeralsAreLimited(t *testing.T) {
	inBubble(t, Config{Limits: Limits{ChildrenBytes: 4 * (4 + 10), EphemeralsPerSession: 3}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		create := func(path string, flags int32) zkproto.Code {
			return c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: path, ACL: openACL, Flags: flags}).Err
		}
		c.create("/a", 0)
		for i := range 5 {
			want := zkproto.CodeOK
			if i == 4 {
				want = zkproto.CodeQuotaExceeded
			}
			if code := create("/a/", zkproto.FlagPersistentSequential); code != want {
				t.Errorf("child %d: %v; want %v", i+1, code, want)
			}
		}
		c.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/a/0000000001", Version: -1})
		if code := create("/a/", zkproto.FlagPersistentSequential); code != zkproto.CodeOK {
			t.Errorf("after one child is gone: %v", code)
		}
		c.create("/b", 0)
		for i := range 4 {
			want := zkproto.CodeOK
			if i == 3 {
				want = zkproto.CodeQuotaExceeded
			}
			if code := create(fmt.Sprint("/b/", i), zkproto.FlagEphemeral); code != want {
				t.Errorf("ephemeral %d: %v; want %v", i+1, code, want)
			}
		}
		// The whole transaction fails, as after any failed operation.
		a := c.call(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{
			{Op: zkproto.OpDelete, Path: "/b/0", Version: -1},
			{Op: zkproto.OpCreate, Path: "/b/x", ACL: openACL, Flags: zkproto.FlagEphemeral},
			{Op: zkproto.OpCreate, Path: "/b/y", ACL: openACL, Flags: zkproto.FlagEphemeral},
		}})
		var m zkproto.MultiResponse
		m.Decode(a.body)
		if len(m.Results) != 3 || m.Results[2].Err != zkproto.CodeQuotaExceeded {
			t.Errorf("transaction: %+v", m)
		}
		assertRefused(t, s, map[Limit]int64{LimitChildren: 1, LimitEphemerals: 2})
	})
}

func TestLargeAnswersAreSentAndReported(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(10*time.Second, nil)
		c.create("/a", 0)
		name := strings.Repeat("x", 3000)
		for i := range 350 {
			c.create(fmt.Sprint("/a/", name, i), 0)
		}
		a := c.call(zkproto.OpGetChildren, &zkproto.ReadRequest{Path: "/a"})
		var m zkproto.ChildrenResponse
		if m.Decode(a.body); len(m.Children) != 350 || a.body.Complete() != nil {
			t.Errorf("%d children", len(m.Children))
		}
		assertRefused(t, s, map[Limit]int64{LimitLargeAnswers: 1})
	})
}

// Clients that do not read are no longer served, and get no more memory.
func TestAnswersWaitForClientsToRead(t *testing.T) {
	for _, tt := range []struct {
		name    string
		total   int
		waiting int64 // at most
		dropped int64 // at least
	}{
		{"nothing more is answered", 0, 9 * (pauseBytes + 400_000), 0},
		{"above the total they are dropped", 4 << 20, 1<<20 + 400_000, 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(Config{Limits: Limits{BufferBytes: tt.total}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				honest := pipe(t, s)
				honest.connect(40*time.Second, nil)
				honest.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: make([]byte, 200_000), ACL: openACL})
				get := frameOf(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"})
				for range 9 {
					c := pipe(t, s)
					c.connect(40*time.Second, nil)
					go func() {
						for range 250 { // 50 MB
							if _, err := c.nc.Write(get); err != nil {
								return
							}
						}
					}()
				}
				synctest.Wait()
				for range 10 {
					if a := honest.call(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"}); a.Err != zkproto.CodeOK {
						t.Fatalf("a client that reads: %v", a.Err)
					}
				}
				synctest.Wait()
				st := s.Stats()
				if st.BytesWaiting > tt.waiting || st.Refused[LimitUnread] < tt.dropped || tt.dropped == 0 && st.Refused[LimitUnread] > 0 {
					t.Errorf("%d bytes wait, %d clients were dropped", st.BytesWaiting, st.Refused[LimitUnread])
				}
				time.Sleep(31 * time.Second)
				synctest.Wait()
				if st := s.Stats(); st.Connections != 1 || st.BytesWaiting != 0 || st.Refused[LimitUnread]+st.Refused[LimitStalled] < 9 {
					t.Errorf("after half a minute: %+v", st)
				}
			})
		})
	}
}

// While the disk hangs, answers wait before they reach any connection. Their memory is bounded.
func TestAnswersDoNotPileUpWhileTheDiskStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowStore{store.NewMemory(), make(chan struct{}, 100)}
		s := startOn(t, disk, Config{})
		defer s.Close()
		disk.ready <- struct{}{}
		disk.ready <- struct{}{}
		c := pipe(t, s)
		c.connect(40*time.Second, nil)
		c.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: make([]byte, 200_000), ACL: openACL})
		c.send(zkproto.OpSetACL, &zkproto.SetACLRequest{Path: "/", ACL: openACL, Version: -1})
		const n = 100 // 20 MB
		for range n {
			c.send(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"})
		}
		synctest.Wait()
		staged := 0
		s.queue.push(&request{kind: kindCall, call: func() { staged = s.owner.batch.bytes }})
		synctest.Wait()
		if staged > pauseBytes+400_000 {
			t.Errorf("%d bytes wait for the disk", staged)
		}
		close(disk.ready)
		for i := range n + 1 {
			if a := c.read(); a.Err != zkproto.CodeOK {
				t.Fatalf("answer %d: %v", i, a.Err)
			}
		}
	})
}

func TestClientThatDoesNotReadItsNotificationsIsDropped(t *testing.T) {
	inBubble(t, Config{Limits: Limits{UnreadBytes: 100_000}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c, other := dial(), dial()
		c.connect(10*time.Second, nil)
		other.connect(10*time.Second, nil)
		c.call(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: "/", Mode: zkproto.ModePersistentRecursive})
		for i := range 60 {
			other.create(fmt.Sprint("/", strings.Repeat("x", 3000), i), 0)
		}
		synctest.Wait()
		assertRefused(t, s, map[Limit]int64{LimitUnread: 1})
		if n := s.Stats().Connections; n != 1 {
			t.Errorf("%d connections; want only the other client's", n)
		}
	})
}

func TestNoLimitIsNegative(t *testing.T) {
	l := Limits{Connections: -1, Watches: -1, HandshakeTime: -1}.withDefaults()
	if l.Connections < 1<<30 || l.Watches < 1<<30 || l.HandshakeTime < 1e5*time.Hour || l.MultiOps != 10_000 {
		t.Errorf("got %+v", l)
	}
}

// The server does not answer all earlier requests of one client before the request of another.
func TestClientsAreServedInTurn(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		greedy, other := dial(), dial()
		greedy.connect(10*time.Second, nil)
		other.connect(10*time.Second, nil)
		greedy.call(zkproto.OpCreate, &zkproto.CreateRequest{Path: "/big", Data: make([]byte, sched.Share), ACL: openACL})
		var before int64 // answers to the greedy client
		var greedyRead atomic.Int64
		go func() {
			for range 101 {
				greedy.read()
				greedyRead.Add(1)
			}
		}()
		held(s, func() {
			for range 100 {
				greedy.send(zkproto.OpGetData, &zkproto.ReadRequest{Path: "/big"})
			}
			greedy.send(zkproto.OpCloseSession, raw(""))
			other.send(zkproto.OpPing, nil)
		}, nil)
		other.read()
		before = greedyRead.Load()
		synctest.Wait()
		// A batch has sched.Full / sched.Share large answers. The greedy client may read some more while
		// the goroutines wake that write and read the other's answer.
		if most := 5 * int64(sched.Full/sched.Share); before > most {
			t.Errorf("the other client was served after %d large answers; want at most %d", before, most)
		}
		if st := s.Stats(); st.Sessions != 1 || st.Outstanding != 0 || greedyRead.Load() != 101 {
			t.Errorf("afterwards: %+v", st)
		}
	})
}
