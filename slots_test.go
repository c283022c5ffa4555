package holdfast_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

func slots(t *testing.T, srv *zktest.Server, n int, opts ...holdfast.Option) *holdfast.Slots {
	return holdfast.NewSlots(client(t, srv), lockPath, n, opts...)
}

// slotNode is the path of the node of a slot.
func slotNode(number int) string { return fmt.Sprintf("%s/slots/slot-%010d", lockPath, number) }

// acquire takes a slot and checks which one it is.
func acquire(t *testing.T, s *holdfast.Slots, want int, wishes ...int) *holdfast.Hold {
	t.Helper()
	h, err := s.TryAcquire(t.Context(), wishes...)
	if err != nil {
		t.Fatal(err)
	}
	wantSlot(t, h, want)
	return h
}

func wantSlot(t *testing.T, h *holdfast.Hold, want int) {
	t.Helper()
	if h.Slot() != want || h.Path() != slotNode(want) {
		t.Errorf("slot %d, node %s; want %d", h.Slot(), h.Path(), want)
	}
}

func wantFreeSlots(t *testing.T, s *holdfast.Slots, free, n int) {
	t.Helper()
	f, l, err := s.Available(t.Context())
	if err != nil || f != free || l != n {
		t.Errorf("%d of %d free (%v); want %d of %d", f, l, err, free, n)
	}
}

func TestSlotsGiveTheLowestFreeNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := slots(t, srv, 12)
		wantFreeSlots(t, s, 12, 12)
		var held []*holdfast.Hold
		for i := range 12 { // past one digit: the order of names is that of numbers
			held = append(held, acquire(t, slots(t, srv, 12), i))
		}
		wantFreeSlots(t, s, 0, 12)
		for _, i := range []int{10, 3, 7} {
			unlock(t, held[i])
		}
		wantFreeSlots(t, s, 3, 12)
		for _, i := range []int{3, 7, 10} {
			h := acquire(t, s, i)
			if h.Token() <= held[i].Token() {
				t.Errorf("slot %d: token %d after %d; want it to grow", i, h.Token(), held[i].Token())
			}
		}
		wantFreeSlots(t, s, 0, 12)
		_, err := s.TryAcquire(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
	})
}

func TestPreferredSlotIsGivenIfItIsFree(t *testing.T) {
	for _, tt := range []struct {
		name   string
		taken  []int
		wishes []int
		want   int
	}{
		{"no wish", nil, nil, 0},
		{"free", nil, []int{2}, 2},
		{"the last", nil, []int{3}, 3},
		{"zero", nil, []int{0}, 0},
		{"taken", []int{2}, []int{2}, 0},
		{"taken, and others", []int{0, 2}, []int{2}, 1},
		{"the second wish", []int{2}, []int{2, 3}, 3},
		{"the first wish counts", nil, []int{3, 1}, 3},
		{"beyond the number of slots", nil, []int{4}, 0},
		{"far beyond", nil, []int{1 << 40}, 0},
		{"negative", nil, []int{-1}, 0},
		{"the only one that is left", []int{0, 1, 2}, []int{1}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				s, other := slots(t, srv, 4), slots(t, srv, 4)
				for _, n := range tt.taken {
					acquire(t, other, n, n)
				}
				unlock(t, acquire(t, s, tt.want, tt.wishes...))
				h := lock(t, s.Locker(tt.wishes...))
				wantSlot(t, h, tt.want)
			})
		})
	}
}

// A process that stops and starts again gets its number. After a crash, the number is taken until the
// session of the dead process ends.
func TestRestartedProcessKeepsItsSlot(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		other := acquire(t, slots(t, srv, 4), 0)
		first := client(t, srv)
		acquire(t, holdfast.NewSlots(first, lockPath, 4), 1)
		unlock(t, other)
		first.Close()
		second := acquire(t, slots(t, srv, 4), 1, 1)

		resume := srv.Stall() // the process is gone, and its session is not over
		<-second.Lost()
		resume()
		third := acquire(t, slots(t, srv, 4), 0, 1)
		srv.Expire(second.SessionID())
		wantErr(t, second.Unlock(), holdfast.ErrLost)
		again := acquire(t, slots(t, srv, 4), 1, 1)
		if again.Token() <= second.Token() {
			t.Errorf("token %d after %d; want it to grow", again.Token(), second.Token())
		}
		unlock(t, third)
		unlock(t, again)
	})
}

// When all slots are taken, callers wait in order, and a released slot goes to the first of them, whatever
// the others wish.
func TestSlotsAreGivenInOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := slots(t, srv, 2)
		zero, one := acquire(t, s, 0), acquire(t, s, 1)
		first := wait(t.Context(), slots(t, srv, 2).Locker())
		second := wait(t.Context(), slots(t, srv, 2).Locker(1))
		if !first.waiting() || !second.waiting() {
			t.Fatal("more slots are out than there are")
		}
		unlock(t, one)
		h := first.got(t)
		wantSlot(t, h, 1)
		if !second.waiting() {
			t.Fatal("a slot was given twice")
		}
		_, err := s.TryAcquire(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		unlock(t, zero)
		g := second.got(t)
		wantSlot(t, g, 0)
		unlock(t, g)
		unlock(t, h)
	})
}

func TestNumberOfSlotsIsStoredAndVerified(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		follower := slots(t, srv, 0)
		_, err := follower.Acquire(t.Context())
		wantErr(t, err, holdfast.ErrLimit) // no number is stored
		_, _, err = follower.Available(t.Context())
		wantErr(t, err, holdfast.ErrLimit)
		h := acquire(t, slots(t, srv, 2), 0)
		_, err = slots(t, srv, 3).Acquire(t.Context())
		wantErr(t, err, holdfast.ErrLimit)
		if err == nil || !strings.Contains(err.Error(), "it is 2, not 3") {
			t.Error(err)
		}
		_, err = slots(t, srv, 3).TryAcquire(t.Context())
		wantErr(t, err, holdfast.ErrLimit)
		unlock(t, acquire(t, follower, 1))
		wantErr(t, follower.SetLimit(t.Context(), 0), holdfast.ErrLimit)
		unlock(t, h)
	})
}

func TestNumberOfSlotsChangesLive(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := slots(t, srv, 0)
		set := func(n int) {
			t.Helper()
			if err := s.SetLimit(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		set(1)
		held := []*holdfast.Hold{acquire(t, s, 0)}
		var waiters []*waiter
		for range 3 {
			waiters = append(waiters, wait(t.Context(), slots(t, srv, 0).Locker()))
		}
		set(4) // all are admitted
		for i, w := range waiters {
			held = append(held, w.got(t))
			wantSlot(t, held[i+1], i+1)
		}
		set(2)
		for i, h := range held {
			if h.Context().Err() != nil {
				t.Errorf("slot %d is lost", i)
			}
		}
		wantFreeSlots(t, s, 0, 2)
		w := wait(t.Context(), slots(t, srv, 0).Locker(3))
		unlock(t, held[3])
		if !w.waiting() {
			t.Fatal("a slot beyond the limit was given again")
		}
		// Slot 2 is still out, and does not count.
		unlock(t, held[1])
		held[1] = w.got(t)
		wantSlot(t, held[1], 1)
		wantFreeSlots(t, s, 0, 2)
		unlock(t, held[0])
		wantFreeSlots(t, s, 1, 2)
		unlock(t, acquire(t, s, 0, 2, 3))
		unlock(t, held[2])
		unlock(t, held[1])
		set(4)
		unlock(t, acquire(t, s, 3, 3))
	})
}

// The number of slots is lowered while a caller is about to take the slot that goes. The transaction fails.
func TestSlotBeyondANewLimitIsNotGiven(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s, admin := slots(t, srv, 0), slots(t, srv, 0)
		if err := admin.SetLimit(t.Context(), 2); err != nil {
			t.Fatal(err)
		}
		zero := acquire(t, admin, 0)
		var cut atomic.Bool
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if cut.CompareAndSwap(false, true) {
				if err := admin.SetLimit(t.Context(), 1); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass
		})
		_, err := s.TryAcquire(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		unlock(t, zero)
	})
}

// A holder of the turnstile sleeps and is thrown out, and another client takes a slot meanwhile. The
// sleeper tries again, and takes another one.
func TestSleeperAtTheTurnstileOfSlotsTakesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		s, other := slots(t, srv, 3), slots(t, srv, 3)
		unlock(t, acquire(t, s, 0))
		synctest.Wait()
		var slept atomic.Bool
		taken := make(chan *holdfast.Hold, 1)
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if slept.CompareAndSwap(false, true) {
				turn, err := holdfast.List(t.Context(), c, lockPath)
				if err != nil || len(turn) != 1 || turn[0].Held {
					t.Error(turn, err)
				}
				if err := holdfast.Break(t.Context(), c, lockPath, turn[0].Token); err != nil {
					t.Error(err)
				}
				h, err := other.TryAcquire(t.Context(), 1) // the one that the sleeper wants
				if err != nil {
					t.Error(err)
				}
				taken <- h
			}
			return zktest.Pass
		})
		again, err := s.TryAcquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		wantSlot(t, again, 0)
		h := <-taken
		wantSlot(t, h, 1)
		unlock(t, again)
		unlock(t, h)
	})
}

// The server that a caller reads from does not know yet that a slot is taken, here because the node is made
// right after the look. The server refuses the second node of that name, and the caller takes another slot.
func TestSlotThatIsTakenAfterTheLookIsNotGivenTwice(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, s := client(t, srv), slots(t, srv, 2)
		unlock(t, acquire(t, s, 0))
		synctest.Wait()
		var made atomic.Bool
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if made.CompareAndSwap(false, true) {
				if _, _, err := c.Create(t.Context(), slotNode(0), nil, zk.Ephemeral); err != nil {
					t.Error(err)
				}
			}
			return zktest.Pass
		})
		unlock(t, acquire(t, s, 1))
		if _, ok, err := c.Exists(t.Context(), slotNode(0)); !ok || err != nil {
			t.Errorf("the node of the other client exists: %v, %v", ok, err)
		}
	})
}

// Every request is lost once, in either direction. The caller gets one slot all the same, and none is
// missing afterwards.
func TestNoSlotIsLostWithAConnection(t *testing.T) {
	type attempt struct {
		op    zkproto.Op
		used  bool // the directories exist
		fault zktest.Action
	}
	var all []attempt
	for _, op := range []zkproto.Op{
		zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpGetData, zkproto.OpExists, zkproto.OpDelete, zkproto.OpSetData,
	} {
		for _, fault := range faults {
			all = append(all, attempt{op, false, fault})
			if op != zkproto.OpCreateContainer && op != zkproto.OpSetData { // those are for what is there by then
				all = append(all, attempt{op, true, fault})
			}
		}
	}
	for _, a := range all {
		t.Run(fmt.Sprintf("%v/%v/used %v", a.op, a.fault, a.used), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				s, observer := slots(t, srv, 3), slots(t, srv, 3)
				if a.used {
					unlock(t, acquire(t, s, 0))
					synctest.Wait()
				}
				var hit, looking atomic.Bool
				srv.Intercept(a.op, func(path string) zktest.Action {
					if strings.HasPrefix(path, lockPath) && !looking.Load() && hit.CompareAndSwap(false, true) {
						return a.fault
					}
					return zktest.Pass
				})
				h, err := s.Acquire(t.Context(), 1)
				if err != nil {
					t.Fatal(err)
				}
				wantSlot(t, h, 1)
				time.Sleep(2 * holdfast.GracePeriod) // the look at its own node
				synctest.Wait()
				looking.Store(true)
				if entries, err := holdfast.List(t.Context(), client(t, srv), lockPath); err != nil || len(entries) != 1 || entries[0].Token != h.Token() || entries[0].Session != h.SessionID() {
					t.Errorf("%+v, %v; want one entry with token %d", entries, err, h.Token())
				}
				if h.Context().Err() != nil {
					t.Errorf("lost: %v", context.Cause(h.Context()))
				}
				looking.Store(false)
				unlock(t, h)
				looking.Store(true)
				wantFreeSlots(t, observer, 3, 3)
				if !hit.Load() {
					t.Error("the fault never struck")
				}
			})
		})
	}
}

// The wait, or the taking itself, is cancelled at its worst moment.
func TestCancelledAcquireOfASlotLeavesNothing(t *testing.T) {
	for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpMulti, zkproto.OpGetData} {
		for _, fault := range append(faults, zktest.Pass) {
			t.Run(fmt.Sprintf("%v/%v", op, fault), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					s := slots(t, srv, 3)
					unlock(t, acquire(t, s, 0))
					synctest.Wait()
					ctx, cancel := context.WithCancel(t.Context())
					srv.Intercept(op, func(string) zktest.Action {
						cancel()
						return fault
					})
					h, err := s.Acquire(ctx)
					if err == nil {
						unlock(t, h) // admitted before it noticed
					} else {
						wantErr(t, err, context.Canceled)
					}
					srv.Intercept(op, nil)
					time.Sleep(time.Second) // for the reconnect
					synctest.Wait()
					wantFreeSlots(t, s, 3, 3)
					unlock(t, acquire(t, slots(t, srv, 3), 0))
				})
			})
		}
	}
}

// The answer to the transaction is lost, and the node of that name is not of this attempt: another goroutine
// of the same session has made it meanwhile. The session alone does not tell whose it is.
func TestSlotOfTheSameSessionIsNotFoundInsteadOfOurs(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		s := holdfast.NewSlots(c, lockPath, 2)
		unlock(t, acquire(t, s, 0))
		synctest.Wait()
		var looked, hit atomic.Bool
		made := make(chan struct{})
		srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action {
			if path == lockPath && looked.CompareAndSwap(false, true) { // the last request of the look
				go func() {
					defer close(made)
					c.Create(t.Context(), slotNode(0), nil, zk.Ephemeral) // its answer may be lost as well
				}()
				time.Sleep(time.Millisecond) // of the bubble: until the request is on its way
			}
			return zktest.Pass
		})
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if looked.Load() && hit.CompareAndSwap(false, true) {
				time.Sleep(time.Millisecond) // until the server has the node; the session's next connection would end its request
				return zktest.DropRequest
			}
			return zktest.Pass
		})
		h := acquire(t, s, 1)
		<-made
		if stat, ok, err := c.Exists(t.Context(), slotNode(0)); !ok || err != nil || stat.EphemeralOwner != h.SessionID() || !hit.Load() {
			t.Errorf("%+v, %v, %v, dropped: %v: the test shows nothing", stat, ok, err, hit.Load())
		}
		unlock(t, h)
	})
}

// A release removes only our own node, never the successor's of the same name.
func TestSlotOfASuccessorIsNotRemoved(t *testing.T) {
	t.Run("after the loss", func(t *testing.T) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			h := acquire(t, slots(t, srv, 1), 0)
			if err := c.Delete(t.Context(), slotNode(0), zk.AnyVersion); err != nil {
				t.Error(err)
			}
			next := acquire(t, holdfast.NewSlots(c, lockPath, 1), 0)
			<-h.Lost()
			wantErr(t, h.Unlock(), holdfast.ErrLost)
			synctest.Wait()
			if next.Context().Err() != nil {
				t.Error("the successor lost its slot")
			}
			unlock(t, next)
		})
	})
	t.Run("when the delete happened and its answer was lost", func(t *testing.T) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			h := acquire(t, slots(t, srv, 1), 0)
			w := wait(t.Context(), slots(t, srv, 1).Locker())
			var hit atomic.Bool
			srv.Intercept(zkproto.OpDelete, func(path string) zktest.Action {
				if path == slotNode(0) && hit.CompareAndSwap(false, true) {
					return zktest.DropReply
				}
				return zktest.Pass
			})
			unlock(t, h)
			next := w.got(t)
			synctest.Wait()
			if next.Context().Err() != nil {
				t.Error("the repeated delete hit the successor")
			}
			unlock(t, next)
		})
	})
}

func TestSlotOfADeadSessionComesBack(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		dead := acquire(t, slots(t, srv, 1), 0)
		c := client(t, srv)
		w := wait(t.Context(), holdfast.NewSlots(c, lockPath, 1).Locker())
		s, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Expire(s.ID()) // the waiter queues again
		<-s.Context().Done()
		if !w.waiting() {
			t.Fatal(w.err)
		}
		srv.Expire(dead.SessionID())
		<-dead.Lost()
		wantErr(t, dead.Unlock(), holdfast.ErrLost)
		h := w.got(t)
		wantSlot(t, h, 0)
		if h.Token() <= dead.Token() {
			t.Errorf("token %d after %d; want it to grow", h.Token(), dead.Token())
		}
		unlock(t, h)
	})
}

func TestAcquireUnderOnesOwnSlotIsADeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := slots(t, srv, 2)
		h := acquire(t, s, 0)
		_, err := s.Acquire(h.Context())
		wantErr(t, err, holdfast.ErrDeadlock)
		second, err := s.TryAcquire(h.Context()) // does not wait
		if err != nil {
			t.Fatal(err)
		}
		wantSlot(t, second, 1)
		unlock(t, second)
		unlock(t, h)
	})
}

// A MultiLock takes one slot. Each token belongs to its slot, since tokens grow for each number alone.
func TestSlotInAMultiLock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		s, m := holdfast.NewSlots(c, lockPath, 4), holdfast.NewMutex(c, lockPath+"-m")
		zero := acquire(t, s, 0)
		h := lock(t, holdfast.NewMultiLock(m, s.Locker(2), s.Locker(3)))
		if h.Slot() != 2 || len(h.Tokens()) != 2 || tokenOf(h, slotNode(2)) == 0 || tokenOf(h, lockPath+"-m") == 0 {
			t.Errorf("slot %d, tokens %v", h.Slot(), h.Tokens())
		}
		if got := zero.Tokens(); len(got) != 1 || got[0].Path != slotNode(0) || got[0].Token != zero.Token() {
			t.Errorf("tokens %v; want that of the slot", got)
		}
		wantFreeSlots(t, s, 2, 4)
		unlock(t, h)
		wantFreeSlots(t, s, 3, 4)
		alone := lock(t, m)
		if alone.Slot() != -1 {
			t.Errorf("a Mutex has slot %d", alone.Slot())
		}
		unlock(t, alone)
		unlock(t, zero)
	})
}

// List shows the slots by number, with their holders, and then the waiters.
func TestListShowsSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		two := acquire(t, slots(t, srv, 3, holdfast.WithOwner("c")), 2, 2)
		zero := acquire(t, slots(t, srv, 3, holdfast.WithOwner("a")), 0)
		one := acquire(t, slots(t, srv, 3, holdfast.WithOwner("b")), 1)
		w := wait(t.Context(), slots(t, srv, 3, holdfast.WithOwner("d")).Locker())
		for _, layout := range []holdfast.Layout{layout.Curator, layout.Kazoo} {
			entries, err := holdfast.List(t.Context(), c, lockPath, layout)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range entries {
				got = append(got, fmt.Sprintf("%s %s %v %v", e.Name[:min(len(e.Name), 21)], e.Owner, e.Held, !e.HeldSince.IsZero() && e.HeldSince.Equal(e.Since)))
			}
			want := []string{"slots/slot-0000000000 a true true", "slots/slot-0000000001 b true true", "slots/slot-0000000002 c true true"}
			if len(got) != 4 || !slices.Equal(got[:3], want) || !strings.HasPrefix(got[3], "slot-queue/_c_") || !strings.HasSuffix(got[3], " d false false") {
				t.Errorf("%q; want %q and the waiter", got, want)
			}
			if found, err := holdfast.Foreign(t.Context(), c, lockPath, layout); err != nil || len(found) != 0 {
				t.Errorf("%+v, %v; want none of what List shows", found, err)
			}
		}
		if err := holdfast.Revoke(t.Context(), c, lockPath, one.Token()); err != nil {
			t.Fatal(err)
		}
		<-one.Revoked()
		if err := holdfast.Break(t.Context(), c, lockPath, one.Token()); err != nil {
			t.Fatal(err)
		}
		<-one.Lost()
		h := w.got(t)
		wantSlot(t, h, 1)
		wantErr(t, one.Unlock(), holdfast.ErrLost)
		for _, h := range []*holdfast.Hold{two, zero, h} {
			unlock(t, h)
		}
	})
}

// A holder does not write into its node after a while: a late write could hit the node of its successor.
func TestSlotNodesAreNotRewritten(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := acquire(t, slots(t, srv, 2), 0)
		time.Sleep(time.Minute)
		if _, stat, err := c.Get(t.Context(), slotNode(0)); err != nil || stat.Version != 0 {
			t.Errorf("version %d, %v; want 0", stat.Version, err)
		}
		unlock(t, h)
	})
}

// A node in the directory of the slots counts only if it is a slot.
func TestForeignChildrenAreNoSlots(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, s := client(t, srv), slots(t, srv, 1)
		unlock(t, acquire(t, s, 0))
		for _, name := range []string{"content", "slot-0", "slot-1", "slot--000000001", "slot-00000000000", "x-slot-0000000000"} {
			if _, _, err := c.Create(t.Context(), lockPath+"/slots/"+name, nil, zk.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		unlock(t, acquire(t, s, 0))
	})
}

// Many clients try and wait over breaking connections. Nobody ever shares a number, and none is missing
// afterwards.
func TestSlotsUnderFaults(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var n atomic.Int64
		for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpDelete, zkproto.OpExists, zkproto.OpGetData} {
			srv.Intercept(op, func(path string) zktest.Action {
				if strings.HasPrefix(path, lockPath) && n.Add(1)%41 == 0 {
					return faults[n.Load()%2]
				}
				return zktest.Pass
			})
		}
		var wg sync.WaitGroup
		var holders [3]atomic.Int32
		var tokens [3]atomic.Int64
		var got atomic.Int32
		for i := range 4 {
			s := slots(t, srv, 3)
			for j := range 4 {
				wg.Go(func() {
					for range 5 {
						wish := (i+j)%5 - 1
						h, err := s.TryAcquire(t.Context(), wish)
						if err != nil {
							if h, err = s.Acquire(t.Context(), wish); err != nil {
								t.Error(err)
								return
							}
						}
						if holders[h.Slot()].Add(1) != 1 {
							t.Errorf("slot %d is held twice", h.Slot())
						}
						if last := tokens[h.Slot()].Swap(h.Token()); h.Token() <= last {
							t.Errorf("slot %d: token %d after %d", h.Slot(), h.Token(), last)
						}
						got.Add(1)
						time.Sleep(5 * time.Millisecond)
						holders[h.Slot()].Add(-1)
						unlock(t, h)
					}
				})
			}
		}
		wg.Wait()
		if got.Load() != 80 {
			t.Errorf("%d turns; want 80", got.Load())
		}
		wantFreeSlots(t, slots(t, srv, 3), 3, 3)
	})
}
