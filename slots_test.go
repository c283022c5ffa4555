package holdfast_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
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

func TestSlotsGiveTheLowestFreeNumber(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		s := slots(t, srv, 12)
		wantOf(t, s, 12, 12)
		var held []*holdfast.Hold
		for i := range 12 { // past one digit: the order of names is that of numbers
			held = append(held, acquire(t, slots(t, srv, 12), i))
		}
		wantOf(t, s, 0, 12)
		for _, i := range []int{10, 3, 7} {
			unlock(t, held[i])
		}
		wantOf(t, s, 3, 12)
		for _, i := range []int{3, 7, 10} {
			h := acquire(t, s, i)
			if h.Token() <= held[i].Token() {
				t.Errorf("slot %d: token %d after %d; want it to grow", i, h.Token(), held[i].Token())
			}
		}
		wantOf(t, s, 0, 12)
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
		wantOf(t, s, 0, 2)
		w := wait(t.Context(), slots(t, srv, 0).Locker(3))
		unlock(t, held[3])
		if !w.waiting() {
			t.Fatal("a slot beyond the limit was given again")
		}
		// Slot 2 is still out, and does not count.
		unlock(t, held[1])
		held[1] = w.got(t)
		wantSlot(t, held[1], 1)
		wantOf(t, s, 0, 2)
		unlock(t, held[0])
		wantOf(t, s, 1, 2)
		unlock(t, acquire(t, s, 0, 2, 3))
		unlock(t, held[2])
		unlock(t, held[1])
		set(4)
		unlock(t, acquire(t, s, 3, 3))
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
		wantOf(t, s, 2, 4)
		unlock(t, h)
		wantOf(t, s, 3, 4)
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
		for _, layout := range []holdfast.Layout{holdfast.LayoutCurator, holdfast.LayoutKazoo} {
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
		unlock(t, one)
		for _, h := range []*holdfast.Hold{two, zero, w.got(t)} {
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
