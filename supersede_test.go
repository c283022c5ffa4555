package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// newestAt returns locks whose newest waiter stays, with an owner.
func newestAt(owner string) func(*zk.Client) holdfast.Locker {
	return func(c *zk.Client) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, holdfast.WithSupersede(), holdfast.WithOwner(owner), holdfast.WithReason("build "+owner))
	}
}

// boundedAt returns locks for which at most n wait.
func boundedAt(n int, dropOldest bool) func(*zk.Client) holdfast.Locker {
	return func(c *zk.Client) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, holdfast.WithQueueMax(n, dropOldest))
	}
}

// wantYielded checks that w has ended with want, in favor of the owner.
func (w *waiter) wantYielded(t *testing.T, want error, owner string) {
	t.Helper()
	if w.waiting() {
		t.Fatal("it still waits")
	}
	wantErr(t, w.err, want)
	if by, ok := holdfast.SupersededBy(w.err); by.Owner != owner || ok != (by.Token > 0) || !strings.Contains(fmt.Sprint(w.err), owner) {
		t.Errorf("by %+v, %v: %v; want %q", by, ok, w.err, owner)
	}
}

func TestTheNewestTakesThePlaceOfThoseOfItsSortThatWait(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := stand(t, srv, newestAt("h"))
		plain, writer, bounded := stand(t, srv, mutexAt), stand(t, srv, writeAt), stand(t, srv, boundedAt(9, true))
		a := stand(t, srv, newestAt("a"))
		b := stand(t, srv, newestAt("b"))
		a.wantYielded(t, holdfast.ErrSuperseded, "b")
		c := stand(t, srv, newestAt("c"))
		b.wantYielded(t, holdfast.ErrSuperseded, "c")
		if !strings.Contains(b.err.Error(), "superseded by c (build c)") {
			t.Error(b.err)
		}
		if holder.hold.Err() != nil {
			t.Error("the holder was touched:", holder.hold.Err())
		}
		drain(t, []*standing{holder, plain, writer, bounded, c})
		wantQueued(t, c.Client, 0)
	})
}

// number is the number at the end of a node's name.
func number(node string) int {
	n, _ := strconv.Atoi(node[len(node)-10:])
	return n
}

// Of the calls that arrive during one hold, one acquires the lock, and it is the newest, also if their transactions meet.
func TestOneFollowsAndItIsTheNewest(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		for _, mixed := range []bool{false, true} {
			holder := stand(t, srv, mutexAt)
			var clients []*zk.Client
			for range 4 {
				clients = append(clients, client(t, srv))
			}
			var all []*waiter
			for i := range 40 {
				w := &waiter{done: make(chan struct{})}
				all = append(all, w)
				l := newestAt(fmt.Sprint(i))(clients[i%len(clients)])
				if mixed && i%3 == 0 {
					l = holdfast.NewRWMutex(clients[i%len(clients)], lockPath, holdfast.WithSupersede())
				}
				go func() {
					defer close(w.done)
					w.hold, w.err = l.Lock(t.Context())
				}()
			}
			synctest.Wait()
			nodes := queued(t, clients[0])
			if len(nodes) != 2 {
				t.Fatalf("%d places: %v; want the holder and the newest", len(nodes), nodes)
			}
			unlock(t, holder.hold)
			synctest.Wait()
			in, waiting := apart(all)
			if len(waiting) > 0 {
				t.Fatalf("%d still wait", len(waiting))
			}
			held := 0
			for _, w := range in {
				if w.err == nil {
					held++
					if last := number(w.hold.Path()); last != number(holder.node)+len(all) {
						t.Errorf("number %d has held the lock, behind %d and %d others; want the last", last, number(holder.node), len(all))
					}
					unlock(t, w.hold)
				} else {
					wantErr(t, w.err, holdfast.ErrSuperseded)
				}
			}
			if held != 1 {
				t.Errorf("%d have held the lock; want 1", held)
			}
			wantQueued(t, clients[0], 0)
		}
	})
}

// The removal of a waiter and its turn come together: the waiter has become the holder, and stays it.
func TestAHolderIsNotRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, a := stand(t, srv, mutexAt), stand(t, srv, newestAt("a"))
		held := make(chan struct{})
		var slow atomic.Bool
		slow.Store(true)
		b := newLine(t, srv)
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if slow.CompareAndSwap(true, false) {
				<-held
			}
			return zktest.Pass
		})
		w := wait(t.Context(), newestAt("b")(b.Client)) // its transaction is on its way
		unlock(t, holder.hold)
		synctest.Wait()
		close(held)
		synctest.Wait()
		// a has seen b behind it, and makes room by itself. Or it was first, and holds the lock.
		if a.waiting() {
			t.Fatal("a still waits")
		}
		if a.err == nil {
			unlock(t, a.hold)
		} else {
			wantErr(t, a.err, holdfast.ErrSuperseded)
		}
		unlock(t, w.got(t))
	})
}

// The same with a queue that is full: the oldest waiter has become the holder, and stays it.
func TestAHolderIsNotDroppedFromAFullQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, a := stand(t, srv, mutexAt), stand(t, srv, boundedAt(1, true))
		late := make(chan struct{})
		var first atomic.Bool
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if first.CompareAndSwap(false, true) {
				<-late
			}
			return zktest.Pass
		})
		b := wait(t.Context(), boundedAt(1, true)(client(t, srv))) // its transaction is on its way
		unlock(t, holder.hold)
		h := a.got(t)
		close(late)
		synctest.Wait()
		if h.Err() != nil {
			t.Fatal("the holder was removed:", h.Err())
		}
		unlock(t, h)
		unlock(t, b.got(t))
	})
}

// A waiter whose session has ended is no newer for that. The newest is a holder, or still waits, or has come and gone.
func TestAnOlderArrivalNeverFollowsTheNewest(t *testing.T) {
	for _, ends := range []string{"waits", "holds", "is gone"} {
		t.Run(ends, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				holder := stand(t, srv, mutexAt)
				a := stand(t, srv, newestAt("a"))
				a.cut()
				time.Sleep(2 * sessionTimeout)
				b := stand(t, srv, newestAt("b"))
				if ends != "waits" {
					unlock(t, holder.hold)
					h := b.got(t)
					if ends == "is gone" {
						unlock(t, h)
					}
				}
				a.mend()
				a.wantYielded(t, holdfast.ErrSuperseded, "b")
			})
		})
	}
}

// A waiter that was cut off learns who has taken its place, though that call has come and gone, and the session lives.
func TestAWaiterThatWasCutOffLearnsWhoHasItsPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, a := stand(t, srv, mutexAt), stand(t, srv, newestAt("a"))
		a.cut()
		b := stand(t, srv, newestAt("b"))
		unlock(t, holder.hold)
		unlock(t, b.got(t))
		a.mend()
		a.wantYielded(t, holdfast.ErrSuperseded, "b")
	})
}

// The answer to the create of a waiter's node is lost, and a newer call removes the node meanwhile. The older one does not
// take the place of the newer one when it comes back, in the same session or in another.
func TestAWaiterThatDoesNotKnowOfItsNodeIsSuperseded(t *testing.T) {
	for _, away := range []time.Duration{0, 2 * sessionTimeout} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			holder, line := stand(t, srv, mutexAt), newLine(t, srv)
			var lost atomic.Bool
			srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
				if lost.CompareAndSwap(false, true) {
					line.stay()
					return zktest.DropReply
				}
				return zktest.Pass
			})
			a := wait(t.Context(), newestAt("a")(line.Client))
			wantQueued(t, holder.Client, 2)
			b := stand(t, srv, newestAt("b"))
			wantQueued(t, holder.Client, 2)
			time.Sleep(away)
			line.mend()
			a.wantYielded(t, holdfast.ErrSuperseded, "b")
			unlock(t, holder.hold)
			unlock(t, b.got(t))
		})
	}
}

// Others who remove a waiter's node do not end its wait: it queues again, and is superseded as before.
func TestABrokenWaiterIsNotSuperseded(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		unlock(t, lock(t, newestAt("before")(client(t, srv)))) // it leaves a record
		holder, a := stand(t, srv, mutexAt), stand(t, srv, newestAt("a"))
		_, stat, err := holder.Get(t.Context(), a.node)
		if err != nil {
			t.Fatal(err)
		}
		if err := holdfast.Break(t.Context(), holder.Client, lockPath, stat.Czxid); err != nil {
			t.Fatal(err)
		}
		if !a.waiting() {
			t.Fatal("a has ended:", a.err)
		}
		b := stand(t, srv, newestAt("b"))
		a.wantYielded(t, holdfast.ErrSuperseded, "b")
		unlock(t, holder.hold)
		unlock(t, b.got(t))
	})
}

// While a newcomer has its node and has removed nobody yet, the turn of an older one comes. The older one makes room.
func TestTheTurnGoesToTheNewest(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, a, b := stand(t, srv, mutexAt), stand(t, srv, newestAt("a")), newLine(t, srv)
		gate := make(chan struct{})
		b.deaf.Store(&gate)
		w := wait(t.Context(), newestAt("b")(b.Client))
		wantQueued(t, holder.Client, 3)
		unlock(t, holder.hold)
		a.wantYielded(t, holdfast.ErrSuperseded, "b")
		b.deaf.Store(nil)
		close(gate)
		unlock(t, w.got(t))
	})
}

func TestTryLockTakesNobodysPlace(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		unlock(t, lock(t, newestAt("first")(c)))
		h, err := newestAt("try")(c).TryLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a := stand(t, srv, newestAt("a"))
		_, err = newestAt("try")(c).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		if !a.waiting() {
			t.Error("a has ended:", a.err)
		}
		unlock(t, h)
		unlock(t, a.got(t))
	})
}

func TestAtMostSoManyWait(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, plain := stand(t, srv, mutexAt), stand(t, srv, mutexAt)
		a := stand(t, srv, boundedAt(2, false))
		full := wait(t.Context(), boundedAt(2, false)(client(t, srv)))
		full.wantYielded(t, holdfast.ErrQueueFull, "")
		old := wait(t.Context(), boundedAt(2, true)(client(t, srv))) // none that it may remove
		old.wantYielded(t, holdfast.ErrQueueFull, "")
		wantQueued(t, plain.Client, 3)
		drain(t, []*standing{holder, plain, a})
	})
}

func TestTheOldestMakesRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder, plain := stand(t, srv, mutexAt), stand(t, srv, mutexAt)
		of := func(owner string) func(c *zk.Client) holdfast.Locker {
			return func(c *zk.Client) holdfast.Locker {
				return holdfast.NewMutex(c, lockPath, holdfast.WithQueueMax(3, true), holdfast.WithOwner(owner))
			}
		}
		a, b := stand(t, srv, of("a")), stand(t, srv, of("b"))
		c := stand(t, srv, of("c"))
		a.wantYielded(t, holdfast.ErrQueueFull, "c")
		b.cut()
		d := stand(t, srv, of("d"))
		b.mend()
		b.wantYielded(t, holdfast.ErrQueueFull, "d")
		drain(t, []*standing{holder, plain, c, d})
	})
}

func TestSupersedeRefusesWhatDoesNotGoTogether(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for _, o := range []holdfast.Option{
			holdfast.WithValue([]byte("x")), holdfast.WithLocalHandoff(1), holdfast.WithKeep(time.Second), holdfast.WithQueueMax(3, true),
		} {
			_, err := holdfast.NewMutex(c, lockPath, holdfast.WithSupersede(), o).Lock(t.Context())
			if wantErr(t, err, zk.ErrBadArguments); !strings.Contains(fmt.Sprint(err), "WithSupersede") {
				t.Error(err)
			}
		}
		_, err := holdfast.NewMutex(c, lockPath, holdfast.WithSupersede(), holdfast.WithLayout(layout.SessionID)).Lock(t.Context())
		wantErr(t, err, holdfast.ErrLayout)
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithSupersede(), holdfast.WithLayout(layout.Kazoo))))
		if _, err := c.Set(t.Context(), lockPath, []byte("mine"), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		_, err = newestAt("a")(c).Lock(t.Context())
		if wantErr(t, err, zk.ErrBadArguments); !strings.Contains(fmt.Sprint(err), "choose another name") {
			t.Error(err)
		}
		wantQueued(t, c, 0)
	})
}

// Layouts that do not see each other's places do not take each other's places either, though they share a directory.
func TestQueuesOfOneDirectoryDoNotSupersedeEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		of := func(letter string, opts ...holdfast.Option) func(*zk.Client) holdfast.Locker {
			lay, err := holdfast.ParseLayout("form:" + letter + "-{uuid}-")
			if err != nil {
				t.Fatal(err)
			}
			return func(c *zk.Client) holdfast.Locker {
				return holdfast.NewMutex(c, lockPath, append(opts, holdfast.WithLayout(lay))...)
			}
		}
		// The newest of b has its turn, and is newer than the waiter of a.
		holder, a := stand(t, srv, of("a")), stand(t, srv, of("a", holdfast.WithSupersede()))
		b := stand(t, srv, of("b", holdfast.WithSupersede()))
		unlock(t, b.got(t))
		unlock(t, holder.hold)
		unlock(t, a.got(t))

		// The oldest of b makes room, and is newer than the waiter of a, whose node somebody removes.
		bounded := holdfast.WithQueueMax(1, true)
		holder, a = stand(t, srv, of("a")), stand(t, srv, of("a", bounded))
		other, first := stand(t, srv, of("b")), stand(t, srv, of("b", bounded))
		second := stand(t, srv, of("b", bounded))
		first.wantYielded(t, holdfast.ErrQueueFull, "")
		if err := a.Delete(t.Context(), a.node, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		unlock(t, holder.hold)
		unlock(t, a.got(t))
		drain(t, []*standing{other, second})
	})
}

// The second node of a writer that has taken the read side does not wait, and neither do the directories of other locks
// among places whose names are numbers.
func TestOnlyWaitersFillAQueue(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewRWMutex(c, lockPath)
		writer, err := m.Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		reader, err := m.RLock(writer.Context())
		if err != nil {
			t.Fatal(err)
		}
		wantQueued(t, c, 2)
		a := stand(t, srv, boundedAt(1, false))
		wait(t.Context(), boundedAt(1, false)(client(t, srv))).wantYielded(t, holdfast.ErrQueueFull, "")
		unlock(t, writer)
		unlock(t, reader)
		unlock(t, a.got(t))
	})
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		lay, err := holdfast.ParseLayout("form:")
		if err != nil {
			t.Fatal(err)
		}
		of := func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, holdfast.WithLayout(lay), holdfast.WithQueueMax(1, false))
		}
		c := client(t, srv)
		unlock(t, lock(t, of(c))) // it makes the directory
		if _, _, err := c.Create(t.Context(), lockPath+"/0000000000", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		holder, a := stand(t, srv, of), stand(t, srv, of)
		wait(t.Context(), of(client(t, srv))).wantYielded(t, holdfast.ErrQueueFull, "")
		unlock(t, holder.hold)
		unlock(t, a.got(t))
	})
}

// A caller at the head of the queue that waits for the end of a reservation makes room, too.
func TestAReservedLockGoesToTheNewest(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, reserve.Locker(mutexAt(c)))
		if err := reserve.For(t.Context(), h, time.Minute); err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		rests := func(owner string) func(c *zk.Client) holdfast.Locker {
			return func(c *zk.Client) holdfast.Locker { return reserve.Locker(newestAt(owner)(c)) }
		}
		a := stand(t, srv, rests("a"))
		time.Sleep(5 * time.Second)
		written := func() int32 {
			stat, ok, err := c.Exists(t.Context(), lockPath)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			return stat.Version
		}
		before := written()
		time.Sleep(20 * time.Second)
		if n := written() - before; n != 0 {
			t.Errorf("a waiter whose turn has come has written the directory's data %d times in 20 s", n)
		}
		b := stand(t, srv, rests("b"))
		time.Sleep(5 * time.Second)
		a.wantYielded(t, holdfast.ErrSuperseded, "b")
		<-b.done
		if b.err != nil {
			t.Fatal(b.err)
		}
		unlock(t, b.hold)
	})
}

func TestObserversHearWhoWasSuperseded(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		holder := stand(t, srv, mutexAt)
		var outcomes []string
		o := &holdfast.Observer{Acquired: func(_ context.Context, e holdfast.Event) { outcomes = append(outcomes, e.Outcome) }}
		a := stand(t, srv, func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, holdfast.WithSupersede(), holdfast.WithObserver(o))
		})
		b := stand(t, srv, newestAt("b"))
		full := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithQueueMax(1, false), holdfast.WithObserver(o)))
		a.wantYielded(t, holdfast.ErrSuperseded, "b")
		full.wantYielded(t, holdfast.ErrQueueFull, "")
		if fmt.Sprint(outcomes) != "[superseded queue_full]" {
			t.Error(outcomes)
		}
		var failed *holdfast.Error
		if !errors.As(a.err, &failed) || failed.Path != lockPath {
			t.Error(a.err)
		}
		drain(t, []*standing{holder, b})
	})
}
