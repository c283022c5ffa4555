package zkserver

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"holdfast/zkproto"
)

// manyEvents bounds the notifications of a portion and of the requests until the next one, if each client waits for as many
// as in these tests.
const manyEvents = 6000

// setsOf returns a transaction of n writes of a node's data.
func setsOf(path string, n int) *zkproto.MultiRequest {
	m := new(zkproto.MultiRequest)
	for range n {
		m.Ops = append(m.Ops, zkproto.MultiOp{Op: zkproto.OpSetData, Path: path, Version: -1})
	}
	return m
}

// watching returns n clients that watch path persistently.
func watching(dial func() *rawClient, n int, path string) (cs []*rawClient) {
	for range n {
		c := dial()
		c.connect(40*time.Second, nil)
		c.call(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: path, Mode: zkproto.ModePersistent})
		cs = append(cs, c)
	}
	return cs
}

// A client that watches a node gets all notifications of a transaction before an answer that is later than it, also
// while the server tells the other watchers.
func TestNotificationsComeBeforeAnswers(t *testing.T) {
	const watchers, sets = 200, 100
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		writer := dial()
		writer.connect(40*time.Second, nil)
		writer.create("/n", 0)
		type heard struct {
			zxid   int64
			events int
		}
		answers := make([][]heard, watchers)
		var all sync.WaitGroup
		for i, c := range watching(dial, watchers, "/n") {
			all.Go(func() {
				for events := 0; events < sets; {
					op := zkproto.OpPing
					if events > 0 || i%2 == 0 && len(answers[i]) == 10 {
						op = zkproto.OpCloseSession
					}
					xid := c.send(op, nil)
					a := c.read()
					for ; a.Xid != xid; a = c.read() {
						events++
					}
					answers[i] = append(answers[i], heard{a.Zxid, events})
					if op == zkproto.OpCloseSession {
						return
					}
				}
			})
		}
		written := writer.call(zkproto.OpMulti, setsOf("/n", sets)).Zxid
		all.Wait()
		for i, hs := range answers {
			for _, h := range hs {
				if h.zxid >= written && h.events != sets {
					t.Fatalf("client %d has an answer of zxid 0x%x after %d notifications; the transaction of zxid 0x%x has %d", i, h.zxid, h.events, written, sets)
				}
			}
		}
	})
}

// The owner tells many watchers in portions. Meanwhile it applies writes with few watchers, and others wait.
func TestManyWatchersAreToldInPortions(t *testing.T) {
	const watchers, sets = 100, 300
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		writer, other := dial(), dial()
		id := other.connect(40*time.Second, nil).SessionID
		writer.connect(40*time.Second, nil)
		for _, path := range []string{"/n", "/lock", "/long"} {
			writer.create(path, 0)
		}
		for _, c := range watching(dial, watchers, "/n") {
			go io.Copy(io.Discard, c.in)
		}
		o, done := &s.owner, make(chan struct{})
		told, telling := int64(0), 0
		var look func()
		look = func() {
			if n := o.notifications - told; n > manyEvents {
				t.Errorf("%d notifications in a portion", n)
			}
			told = o.notifications
			if o.tree.Telling() {
				telling++
				c := o.sessions[id].conn
				for _, tt := range []struct {
					r    request
					want bool
				}{
					{request{op: zkproto.OpSetData, write: zkproto.MultiOp{Path: "/n"}}, true},
					{request{op: zkproto.OpCreate, write: zkproto.MultiOp{Path: "/n/x"}}, true}, // the children are watched
					{request{op: zkproto.OpMulti, multi: *setsOf("/n", 1)}, true},
					{request{op: zkproto.OpMulti, undecoded: true}, true},
					{request{op: zkproto.OpMulti, multi: *setsOf("/lock", 1)}, false},
					{request{op: zkproto.OpDelete, write: zkproto.MultiOp{Path: "/lock"}}, false},
					{request{op: zkproto.OpGetData, read: zkproto.ReadRequest{Path: "/n"}}, false},
					{request{op: zkproto.OpCloseSession}, false},
				} {
					if got := s.waitsForTelling(c, &tt.r); got != tt.want {
						t.Errorf("%v of %q %q waits: %v", tt.r.op, tt.r.write.Path, tt.r.read.Path, got)
					}
				}
				for by := range o.watchers {
					if o.tree.Behind(by) != s.waitsForTelling(o.watchers[by], &request{op: zkproto.OpPing}) {
						t.Error("a client that is behind does not wait for its notifications")
					}
					if o.tree.Behind(by) {
						continue
					}
					if o.tree.CatchUp(by); len(o.tree.TakeEvents()) > 0 {
						t.Error("a client is answered before its notifications")
					}
				}
			}
			if o.tree.Telling() {
				s.queue.push(&request{kind: kindCall, call: look})
			} else {
				close(done)
			}
		}
		onOwner(s, func() {
			told = o.notifications
			o.tree.Multi(s.nextTxn(0), setsOf("/n", sets).Ops)
			s.notify(nil)
			look()
		})
		<-done
		if telling < 5 {
			t.Errorf("%d portions seen", telling)
		}
	})
}

// Writes whose notifications are too many wait until the owner has told some of them.
func TestTooManyNotificationsHoldWritesUp(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		writer := dial()
		id := writer.connect(40*time.Second, nil).SessionID
		writer.create("/n", 0)
		writer.create("/lock", 0)
		for _, c := range watching(dial, 600, "/n") {
			go io.Copy(io.Discard, c.in)
		}
		onOwner(s, func() {
			c, untold := s.owner.sessions[id].conn, 0
			writes := 0
			for ; !s.tooMuchToTell() && writes < 1000; writes++ {
				s.owner.tree.Set(s.nextTxn(id), "/n", nil, -1)
				s.notify(nil)
				if n := s.owner.tree.Untold(); n <= untold {
					t.Errorf("%d notifications are left after the write, %d before", n, untold)
				} else {
					untold = n
				}
			}
			if writes > 200 {
				t.Errorf("%d writes with 600 watchers each wait for nothing", writes)
			}
			for _, r := range []request{{op: zkproto.OpDelete, write: zkproto.MultiOp{Path: "/lock"}}, {op: zkproto.OpCloseSession}, {op: zkproto.OpMulti, multi: *setsOf("/lock", 1)}} {
				if !s.waitsForTelling(c, &r) {
					t.Errorf("%v does not wait", r.op)
				}
			}
		})
		writer.call(zkproto.OpDelete, &zkproto.DeleteRequest{Path: "/lock", Version: -1}) // in the end
	})
}

// A client that ends its session gets the notifications of its own nodes first.
func TestNotificationsComeBeforeTheEndOfTheirSession(t *testing.T) {
	const nodes = 900
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		c := dial()
		c.connect(40*time.Second, nil)
		for i := range nodes {
			c.create(fmt.Sprintf("/n%d", i), zkproto.FlagEphemeral)
		}
		c.call(zkproto.OpAddWatch, &zkproto.AddWatchRequest{Path: "/", Mode: zkproto.ModePersistentRecursive})
		xid, events := c.send(zkproto.OpCloseSession, nil), 0
		for a := c.read(); a.Xid != xid; a = c.read() {
			events++
		}
		if events != nodes {
			t.Errorf("%d notifications before the answer; want %d", events, nodes)
		}
		c.closed()
	})
}
