package holdfast_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func TestReleaseHandsOverWithoutARequest(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		all := standAll(t, srv, 7, mutexAt)
		synctest.Wait() // the last answers have arrived
		for i, s := range all[:6] {
			requests, bytes := make([]int64, len(all)), make([]int64, len(all))
			for j, o := range all {
				requests[j], bytes[j] = o.requests.Load(), o.bytes.Load()
			}
			if !s.in(t) {
				t.Fatalf("%d does not have the lock", i)
			}
			unlock(t, s.hold)
			if !all[i+1].in(t) {
				t.Fatalf("%d does not have the lock after %d released it", i+1, i)
			}
			for j, o := range all {
				asked, heard := o.requests.Load()-requests[j], o.bytes.Load()-bytes[j]
				switch {
				case j == i && asked != 1:
					t.Errorf("release %d: the holder made %d requests; want 1", i, asked)
				case j == i+1 && asked != 0:
					t.Errorf("release %d: the next waiter made %d requests; want none", i, asked)
				case j == i+2 && asked != 3:
					t.Errorf("release %d: the second next waiter made %d requests; want 3", i, asked)
				case j > i+2 && heard != 0:
					t.Errorf("release %d woke waiter %d: it received %d bytes; want none", i, j, heard)
				}
			}
		}
	})
}

// The next in line may not read its own node, so no watch tells it that the node was removed. The proof
// of its session finds out. The waiter then queues again at once, not when its turn would have come.
func TestWaiterThatMayNotReadItsNodeQueuesAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		h := lock(t, holdfast.NewMutex(admin, lockPath))
		cfg := srv.Config()
		cfg.Lease, cfg.SessionTimeout = zk.LeaseQuorum, sessionTimeout
		c, err := zk.Dial(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		unreadable := zk.ACL{Perms: zk.PermCreate | zk.PermDelete | zk.PermWrite, Scheme: "world", ID: "anyone"}
		w := wait(t.Context(), holdfast.NewMutex(c, lockPath, holdfast.WithACL(unreadable)))
		if !w.waiting() {
			t.Fatal("did not wait", w.err)
		}
		time.Sleep(time.Minute) // the holder has noted in its node since when it holds, which wakes the waiter
		before := queued(t, admin)
		for _, name := range before {
			if path := lockPath + "/" + name; path != h.Path() {
				if err := admin.Delete(t.Context(), path, zk.AnyVersion); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(sessionTimeout)
		synctest.Wait()
		if after := queued(t, admin); len(after) != 2 || slices.Equal(before, after) {
			t.Errorf("the queue is %v; want a new node of the waiter behind the holder's", after)
		}
		unlock(t, h)
		unlock(t, w.got(t))
	})
}

// A waiter's node is removed before the holder's. Whichever event arrives first, the waiter
// must not acquire the lock: it belongs to the next one.
func TestRemovedNodeIsNeverAcquired(t *testing.T) {
	for _, kind := range []struct {
		name string
		of   func(*zk.Client) holdfast.Locker
	}{{"mutex", mutexAt}, {"writer", writeAt}, {"reader", readAt}} {
		for _, how := range []string{"connected", "catching up", "after a change", "while its watch is renewed", "in one go with the look ahead"} {
			t.Run(kind.name+"/"+how, func(t *testing.T) {
				rounds := 1
				switch how {
				case "catching up": // the server sends events in the order of the watches, which is random
					rounds = 20
				case "in one go with the look ahead": // the select between two ready events is random
					rounds = 20
				}
				for range rounds {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						admin := client(t, srv)
						first := stand(t, srv, mutexAt)
						holder := stand(t, srv, mutexAt)
						victim := stand(t, srv, kind.of)
						next := stand(t, srv, mutexAt)
						if how == "in one go with the look ahead" {
							victim.deafen.Store(true)
						} else {
							victim.slowly.Store(true)
						}
						unlock(t, first.hold)
						time.Sleep(time.Second)
						removal := []zk.Op{zk.DeleteOp(victim.node, zk.AnyVersion), zk.DeleteOp(holder.node, zk.AnyVersion)}
						switch how {
						case "catching up":
							victim.cut()
						case "after a change":
							if _, err := admin.Set(t.Context(), victim.node, []byte("changed"), zk.AnyVersion); err != nil {
								t.Fatal(err)
							}
							synctest.Wait()
						case "while its watch is renewed":
							removal = slices.Insert(removal, 0, zk.SetOp(victim.node, []byte("changed"), zk.AnyVersion))
						}
						if _, err := admin.Pipeline(t.Context(), removal...); err != nil {
							t.Fatal(err)
						}
						time.Sleep(time.Second)
						synctest.Wait()
						switch how {
						case "catching up":
							victim.mend()
						case "in one go with the look ahead":
							if victim.deaf.Load() == nil {
								t.Fatal("the waiter has not looked ahead")
							}
							victim.hear()
						}
						if victim.in(t) {
							t.Fatal("the waiter acquired the lock with a node that was gone before its turn")
						}
						if !next.in(t) {
							t.Error("the next waiter does not have the lock")
						}
						if !victim.waiting() {
							t.Error("two hold the lock")
						}
					})
				}
			})
		}
	}
}

// Clients leave the queue in any order, in one transaction or one by one. Nobody acquires
// the lock before its turn, and everybody acquires it in its turn.
func TestLeavingTheQueueIsNoRelease(t *testing.T) {
	tests := []struct {
		name  string
		leave []int // which of the six leave; 0 is the holder
		next  int   // the next holder
	}{
		{"the second", []int{1}, 0},
		{"the third", []int{2}, 0},
		{"the second and the third", []int{1, 2}, 0},
		{"the third and the second", []int{2, 1}, 0},
		{"all ahead of the last but the holder", []int{1, 2, 3, 4}, 0},
		{"the holder", []int{0}, 1},
		{"the holder and the second", []int{0, 1}, 2},
		{"the second and the holder", []int{1, 0}, 2},
		{"the third, the holder and the second", []int{2, 0, 1}, 3},
		{"all but the last", []int{4, 2, 0, 1, 3}, 5},
	}
	for _, tt := range tests {
		for _, together := range []bool{true, false} {
			for i, cut := range []bool{false, true, false} {
				t.Run(fmt.Sprintf("%s/together=%v/cut=%v/reader=%v", tt.name, together, cut, i == 2), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						admin := client(t, srv)
						all := standAll(t, srv, 5, mutexAt)
						if i == 2 {
							all = append(all, stand(t, srv, readAt))
						} else {
							all = append(all, stand(t, srv, mutexAt))
						}
						var ops []zk.Op
						for _, i := range tt.leave {
							ops = append(ops, zk.DeleteOp(all[i].node, zk.AnyVersion))
						}
						last := all[5]
						if cut {
							last.cut()
						}
						if together {
							if _, err := admin.Pipeline(t.Context(), ops...); err != nil {
								t.Fatal(err)
							}
						} else {
							for _, i := range tt.leave {
								if all[i].in0(t) {
									unlock(t, all[i].hold)
								} else {
									all[i].cancel()
								}
								synctest.Wait()
							}
						}
						if cut {
							last.mend()
						}
						synctest.Wait()
						for i, s := range all {
							if slices.Contains(tt.leave, i) {
								continue
							}
							if in := s.in0(t); in != (i == tt.next) {
								t.Errorf("%d has the lock before its turn: %v", i, in)
							}
						}
						for i, s := range all[tt.next:] {
							if slices.Contains(tt.leave, tt.next+i) {
								continue
							}
							if !s.in0(t) {
								t.Fatalf("%d does not have the lock in its turn", tt.next+i)
							}
							unlock(t, s.hold)
							synctest.Wait()
						}
					})
				})
			}
		}
	}
}

// in0 is in, for waiters whose wait may have been cancelled.
func (s *standing) in0(t *testing.T) bool { return !s.waiting() && s.err == nil && s.in(t) }

// A writer that takes the read side leaves a reader in its place. No list has shown this
// reader to the waiters.
func TestReaderInAWritersPlaceIsWaitedFor(t *testing.T) {
	for _, waiters := range []int{1, 2, 40} {
		t.Run(fmt.Sprint(waiters), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				m := holdfast.NewRWMutex(client(t, srv), lockPath)
				w := lock(t, m)
				all := standAll(t, srv, waiters, mutexAt)
				r, err := m.RLock(w.Context())
				if err != nil {
					t.Fatal(err)
				}
				unlock(t, w)
				if !all[0].waiting() {
					t.Fatal("a mutex is held beside a reader")
				}
				unlock(t, r)
				for _, s := range all {
					if !s.in(t) {
						t.Fatal("a lock was acquired out of turn")
					}
					unlock(t, s.hold)
				}
			})
		})
	}
}

// The waiter behind a Mutex relies on its node alone, so the Mutex takes no read side beside it.
func TestMutexThatTakesTheReadSideKeepsEverybodyOut(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		next := stand(t, srv, mutexAt)
		r, err := holdfast.NewRWMutex(c, lockPath).RLock(h.Context())
		if err != nil {
			t.Fatal(err)
		}
		if r.Token() != h.Token() {
			t.Errorf("the read side has token %d; want the Mutex's, %d", r.Token(), h.Token())
		}
		unlock(t, h)
		if !next.waiting() {
			t.Fatal("two hold the lock")
		}
		unlock(t, r)
		if !next.in(t) {
			t.Error("the next waiter does not have the lock")
		}
	})
}

// Another node now has the name of a waiter's node. The watch on it is useless, and servers
// limit watches, so the client removes it.
func TestWatchOnAnotherNodeOfOurNameIsStopped(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		use := holdfast.WithLayout(layout.WriteLock)
		h := lock(t, holdfast.NewMutex(client(t, srv), lockPath, use))
		c, admin := client(t, srv), client(t, srv)
		s, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		own := fmt.Sprintf("%s/x-%d-0000000001", lockPath, s.ID())
		var replaced atomic.Bool
		var stopped atomic.Int64
		srv.Intercept(zkproto.OpGetData, func(path string) zktest.Action {
			if path == own && !replaced.Swap(true) {
				if err := admin.Delete(t.Context(), own, zk.AnyVersion); err != nil {
					t.Error(err)
				}
				if _, _, err := admin.Create(t.Context(), own, nil, zk.Persistent); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass
		})
		srv.Intercept(zkproto.OpRemoveWatches, func(path string) zktest.Action {
			if path == own {
				stopped.Add(1)
			}
			return zktest.Pass
		})
		ctx, cancel := context.WithCancel(t.Context())
		w := wait(ctx, holdfast.NewMutex(c, lockPath, use)) // queues again, behind that node
		if !replaced.Load() || !w.waiting() {
			t.Fatal("the node did not come back under its name: the test shows nothing")
		}
		if stopped.Load() != 1 {
			t.Errorf("%d watches were stopped; want 1", stopped.Load())
		}
		cancel()
		<-w.done
		unlock(t, h)
	})
}

// A heldConn collects everything that arrives within a second and returns it in one read, once.
type heldConn struct {
	net.Conn
	held *atomic.Bool
}

func (c heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil || !c.held.CompareAndSwap(true, false) {
		return n, err
	}
	time.Sleep(time.Second)
	more, err := c.Conn.Read(b[n:])
	return n + more, err
}

// Our node is removed, then the one ahead, and both events arrive before we begin to wait.
// The first event counts, whichever we look at first.
func TestEventsThatComeTogetherAreTakenInOrder(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // both events are there before the waiter runs
	for range 20 {                                  // the order of the looks is random
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			admin := client(t, srv)
			holder := stand(t, srv, mutexAt)
			var once, held atomic.Bool
			srv.Intercept(zkproto.OpGetData, func(path string) zktest.Action {
				if path == holder.node && once.CompareAndSwap(false, true) {
					held.Store(true) // the answer arrives together with the events that follow
				}
				return zktest.Pass
			})
			victim := stand(t, srv, func(*zk.Client) holdfast.Locker {
				cfg := srv.Config()
				dial := cfg.Dial
				cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := dial(ctx, network, addr)
					return heldConn{nc, &held}, err
				}
				c, err := zk.Dial(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return holdfast.NewMutex(c, lockPath)
			})
			next := stand(t, srv, mutexAt)
			_, err := admin.Pipeline(t.Context(), zk.DeleteOp(victim.node, zk.AnyVersion), zk.DeleteOp(holder.node, zk.AnyVersion))
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			if !once.Load() || held.Load() {
				t.Fatal("no event arrived: the test shows nothing")
			}
			if victim.in(t) || !next.in(t) {
				t.Fatal("the lock was taken with a node that was gone before its turn")
			}
		})
	}
}

// A slowConn reads a few bytes per millisecond.
type slowConn struct{ net.Conn }

func (c slowConn) Read(b []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return c.Conn.Read(b[:min(len(b), 16)])
}

// After a reconnect, the events of the meantime arrive slowly and in no order. The waiter
// may hear of the removal of the node ahead long before it hears that its own went first.
func TestCatchUpThatComesInPiecesIsNoRelease(t *testing.T) {
	for range 60 { // the order is random
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			admin := client(t, srv)
			cfg := srv.Config()
			cfg.SessionTimeout = 10 * time.Second
			dial := cfg.Dial
			var away atomic.Bool
			var conn net.Conn
			cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if away.Load() {
					return nil, net.ErrClosed
				}
				nc, err := dial(ctx, network, addr)
				conn = nc
				return slowConn{nc}, err
			}
			c, err := zk.Dial(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			holder := stand(t, srv, mutexAt)
			before := queued(t, admin)
			victim := wait(t.Context(), holdfast.NewMutex(c, lockPath))
			time.Sleep(time.Second)
			next := stand(t, srv, mutexAt)
			var node string
			for _, name := range queued(t, admin) {
				if path := lockPath + "/" + name; path != next.node && path != holder.node {
					node = path
				}
			}
			if len(before) != 1 || node == "" {
				t.Fatal(before, node)
			}
			away.Store(true)
			conn.Close()
			synctest.Wait()
			if _, err := admin.Pipeline(t.Context(), zk.DeleteOp(node, zk.AnyVersion), zk.DeleteOp(holder.node, zk.AnyVersion)); err != nil {
				t.Fatal(err)
			}
			away.Store(false)
			time.Sleep(3 * time.Second)
			if !victim.waiting() {
				t.Fatalf("the lock was taken with a node that was gone before its turn (%v)", victim.err)
			}
			if !next.in(t) {
				t.Fatal("the next waiter does not have the lock")
			}
			unlock(t, next.hold)
			unlock(t, victim.got(t))
		})
	}
}

// The writer right ahead gives up while another writer holds the lock.
func TestReaderOutlastsTheWriterThatGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, second := stand(t, srv, writeAt), stand(t, srv, writeAt)
		reader, another := stand(t, srv, readAt), stand(t, srv, readAt)
		second.cancel()
		<-second.done
		if !reader.waiting() || !another.waiting() {
			t.Fatal("a reader holds the lock beside a writer")
		}
		unlock(t, holder.hold)
		unlock(t, reader.got(t))
		unlock(t, another.got(t))
	})
}

// In a long queue a holder leaves a watermark. It proves that all up to the holder's own
// place have gone, and nothing about those behind it.
func TestMarkOfSomebodyFurtherAheadIsNoProof(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		const n = 42
		all := standAll(t, srv, n, mutexAt)
		const holds = 36 // those who joined when the queue was long, and some before
		for _, s := range all[:holds] {
			unlock(t, s.got(t))
		}
		data, _, err := all[n-1].Get(t.Context(), lockPath)
		if err != nil || len(data) == 0 {
			t.Fatalf("no watermark: %q, %v: the test shows nothing", data, err)
		}
		for _, i := range []int{holds + 1, holds + 2, holds + 3} {
			all[i].cancel()
			<-all[i].done
			synctest.Wait()
		}
		for i, s := range all[holds+4:] {
			if !s.waiting() {
				t.Errorf("%d acquired the lock that %d holds", holds+4+i, holds)
			}
		}
		unlock(t, all[holds].got(t))
		unlock(t, all[holds+4].got(t))
		unlock(t, all[holds+5].got(t))
	})
}

// The directory's data may belong to somebody. Then holders leave no watermarks.
func TestMarksLeaveOthersDataAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		unlock(t, lock(t, holdfast.NewMutex(admin, lockPath))) // the directory exists
		const theirs = "who may lock: see the wiki"
		if _, err := admin.Set(t.Context(), lockPath, []byte(theirs), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		for _, s := range standAll(t, srv, 40, mutexAt) {
			unlock(t, s.got(t))
		}
		if data, _, err := admin.Get(t.Context(), lockPath); err != nil || string(data) != theirs {
			t.Errorf("the data are %q, %v; want %q", data, err, theirs)
		}
	})
}

// An audited client takes its server for an ensemble, and counts its requests.
type audited struct {
	*zk.Client
	dials  atomic.Int64
	writes atomic.Int64 // written to connections
}

type auditedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c auditedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// auditedTimeout is a session timeout that is provable with the usual tick.
const auditedTimeout = 10 * time.Second

func audit(t *testing.T, srv *zktest.Server) *audited {
	t.Helper()
	a := new(audited)
	cfg := srv.Config()
	cfg.SessionTimeout, cfg.Lease = auditedTimeout, zk.LeaseQuorum
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		a.dials.Add(1)
		nc, err := dial(ctx, network, addr)
		return auditedConn{nc, &a.writes}, err
	}
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	a.Client = c
	return a
}

// idles returns how many messages the client sends in 20 minutes, beyond an idle session's pings and the looks of one
// waiter.
func (a *audited) idles() int64 {
	synctest.Wait()
	before := a.writes.Load()
	const while = 20 * time.Minute
	time.Sleep(while)
	return a.writes.Load() - before - int64(while/(auditedTimeout/6)) - looksIn(while)
}

// looksIn returns how often a waiter or a holder looks at most whether it has missed an event: see queue.LookAgain.
func looksIn(d time.Duration) int64 { return int64(d / (30 * time.Second)) }

func (a *audited) join(t *testing.T, of func(*zk.Client) holdfast.Locker) (*waiter, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	return wait(ctx, of(a.Client)), cancel
}

// The next waiter in line proves its session while it waits. In its turn it holds the lock
// without sending anything. Those behind it prove nothing yet.
func TestNextInLineIsProvenBeforeItsTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, next, third := audit(t, srv), audit(t, srv), audit(t, srv)
		time.Sleep(10 * time.Minute) // no session was proven lately
		hold := lock(t, mutexAt(holder.Client))
		waits, _ := next.join(t, mutexAt)
		behind, _ := third.join(t, mutexAt)
		if n := third.idles(); n > 0 {
			t.Errorf("the third waiter sends %d probes; want none", n)
		}
		if next.dials.Load() != 2 || third.dials.Load() != 1 {
			t.Errorf("the next waiter attached %d times and the third %d times; want 2 and 1", next.dials.Load(), third.dials.Load())
		}
		before := next.writes.Load()
		unlock(t, hold)
		synctest.Wait()
		if waits.waiting() || waits.err != nil {
			t.Fatalf("the next waiter does not hold the lock: %v", waits.err)
		}
		if n := next.writes.Load() - before; n != 0 {
			t.Errorf("the next waiter sent %d messages to hold the lock; want none", n)
		}
		if dials := third.dials.Load(); dials != 2 { // the third is next in line now
			t.Errorf("the third waiter attached %d times; want 2", dials)
		}
		unlock(t, waits.hold)
		synctest.Wait()
		if behind.waiting() || behind.err != nil {
			t.Fatalf("the third waiter does not hold the lock: %v", behind.err)
		}
		unlock(t, behind.hold)
	})
}

// Many readers may wait behind one writer. They wait without a proof.
func TestReadersInLineProveNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		writer, reader := audit(t, srv), audit(t, srv)
		hold := lock(t, writeAt(writer.Client))
		waits, _ := reader.join(t, readAt)
		if n := reader.idles(); n > 0 {
			t.Errorf("the waiting reader sends %d probes; want none", n)
		}
		unlock(t, hold)
		synctest.Wait()
		if waits.waiting() || waits.err != nil {
			t.Fatalf("the reader does not hold the lock: %v", waits.err)
		}
	})
}

// However a wait ends, its lease ends too. After a while the session sends only pings.
func TestNextInLineLeavesNoLease(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, admin *zk.Client, hold *holdfast.Hold, w *waiter, cancel context.CancelFunc)
	}{
		{"cancelled", func(t *testing.T, _ *zk.Client, _ *holdfast.Hold, w *waiter, cancel context.CancelFunc) {
			cancel()
			synctest.Wait()
			wantErr(t, w.err, context.Canceled)
		}},
		{"held and unlocked", func(t *testing.T, _ *zk.Client, hold *holdfast.Hold, w *waiter, _ context.CancelFunc) {
			unlock(t, hold)
			synctest.Wait()
			if w.err != nil {
				t.Fatal(w.err)
			}
			unlock(t, w.hold)
		}},
		{"its turn came and its context had ended", func(t *testing.T, _ *zk.Client, hold *holdfast.Hold, w *waiter, cancel context.CancelFunc) {
			cancel()
			unlock(t, hold)
			synctest.Wait()
			if w.hold != nil {
				unlock(t, w.hold)
			}
		}},
		{"its node was removed, and it was cancelled in its new place", func(t *testing.T, admin *zk.Client, hold *holdfast.Hold, w *waiter, cancel context.CancelFunc) {
			for _, n := range queued(t, admin) {
				if lockPath+"/"+n != hold.Path() {
					if err := admin.Delete(t.Context(), lockPath+"/"+n, zk.AnyVersion); err != nil {
						t.Fatal(err)
					}
				}
			}
			synctest.Wait()
			if len(queued(t, admin)) != 2 {
				t.Fatal("the waiter has not queued again")
			}
			cancel()
			synctest.Wait()
			wantErr(t, w.err, context.Canceled)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				holder, next := client(t, srv), audit(t, srv)
				hold := lock(t, mutexAt(holder))
				w, cancel := next.join(t, mutexAt)
				defer cancel()
				if next.idles() <= 0 {
					t.Fatal("the next waiter in line does not probe: the test shows nothing")
				}
				tt.end(t, holder, hold, w, cancel)
				time.Sleep(2 * auditedTimeout)
				if n := next.idles(); n > 0 {
					t.Errorf("%d probes after the last wait ended; want none", n)
				}
			})
		})
	}
}
