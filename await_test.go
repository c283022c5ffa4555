package holdfast_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

func TestReleaseHandsOverWithoutARequest(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		all := standAll(t, srv, 7, mutexAt)
		synctest.Wait() // the last answers are there
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
				t.Fatalf("%d does not have the lock when %d has let go", i+1, i)
			}
			for j, o := range all {
				asked, heard := o.requests.Load()-requests[j], o.bytes.Load()-bytes[j]
				switch {
				case j == i && asked != 1:
					t.Errorf("release %d: the holder made %d requests; want 1", i, asked)
				case j == i+1 && asked != 0:
					t.Errorf("release %d: the next made %d requests; want none", i, asked)
				case j == i+2 && asked != 3:
					t.Errorf("release %d: the one behind the next made %d requests; want 3", i, asked)
				case j > i+2 && heard != 0:
					t.Errorf("release %d woke %d: %d bytes", i, j, heard)
				}
			}
		}
	})
}

// The node of somebody who waits is removed before that of the holder. Whatever it hears
// of that first, it must not take the lock, which is the next one's.
func TestRemovedNodeIsNeverAcquired(t *testing.T) {
	for _, kind := range []struct {
		name string
		of   func(*zk.Client) holdfast.Locker
	}{{"mutex", mutexAt}, {"writer", writeAt}, {"reader", readAt}} {
		for _, how := range []string{"connected", "catching up", "after a change", "while its watch is renewed", "in one go with the look ahead"} {
			t.Run(kind.name+"/"+how, func(t *testing.T) {
				rounds := 1
				switch how {
				case "catching up": // the server tells in the order in which it is asked, which is random
					rounds = 20
				case "in one go with the look ahead": // which of two events that are there is taken is random
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
								t.Fatal("it has not looked ahead")
							}
							victim.hear()
						}
						if victim.in(t) {
							t.Fatal("it has acquired the lock with a node that was gone before its turn")
						}
						if !next.in(t) {
							t.Error("the next does not have the lock")
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

// Clients leave the queue in any order, in one transaction or one by one. Nobody gets the lock
// before its turn, and everybody gets it in its turn.
func TestLeavingTheQueueIsNoRelease(t *testing.T) {
	tests := []struct {
		name  string
		leave []int // those who leave, of six: 0 holds
		next  int   // who has the lock then
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
								t.Errorf("%d has the lock: %v", i, in)
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

// in0 is in for those whose wait may have been cancelled.
func (s *standing) in0(t *testing.T) bool { return !s.waiting() && s.err == nil && s.in(t) }

// A writer that takes the read side leaves a reader in its place, which no list has shown
// to those who wait.
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
					t.Fatal("a mutex beside a reader")
				}
				unlock(t, r)
				for _, s := range all {
					if !s.in(t) {
						t.Fatal("not in its turn")
					}
					unlock(t, s.hold)
				}
			})
		})
	}
}

// Who waits for the node of a Mutex goes by that alone, so it takes no read side beside it.
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
			t.Errorf("token %d beside %d", r.Token(), h.Token())
		}
		unlock(t, h)
		if !next.waiting() {
			t.Fatal("two hold the lock")
		}
		unlock(t, r)
		if !next.in(t) {
			t.Error("the next does not have the lock")
		}
	})
}

// The name of a waiter's node has come back with another node. The watch on that is of no
// use to the waiter, so it is stopped: a server has a limit of them.
func TestWatchOnAnotherNodeOfOurNameIsStopped(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		use := holdfast.WithLayout(holdfast.LayoutWriteLock)
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
		w := wait(ctx, holdfast.NewMutex(c, lockPath, use)) // which queues again, behind that node
		if !replaced.Load() || !w.waiting() {
			t.Fatal("the test shows nothing")
		}
		if stopped.Load() != 1 {
			t.Errorf("%d watches were stopped; want 1", stopped.Load())
		}
		cancel()
		<-w.done
		unlock(t, h)
	})
}
