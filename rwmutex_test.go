package holdfast_test

import (
	"context"
	"fmt"
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

func rw(t *testing.T, srv *zktest.Server, opts ...holdfast.Option) *holdfast.RWMutex {
	return holdfast.NewRWMutex(client(t, srv), lockPath, opts...)
}

func TestReadersShareAndWritersExclude(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		r1, r2 := lock(t, rw(t, srv).RLocker()), lock(t, rw(t, srv).RLocker())
		w := wait(t.Context(), rw(t, srv))
		if _, err := rw(t, srv).TryLock(t.Context()); err == nil {
			t.Fatal("a writer holds the lock beside readers")
		}
		unlock(t, r1)
		if !w.waiting() {
			t.Fatal("a writer holds the lock beside a reader")
		}
		unlock(t, r2)
		h := w.got(t)
		for _, try := range []func(context.Context) (*holdfast.Hold, error){rw(t, srv).TryLock, rw(t, srv).TryRLock} {
			_, err := try(t.Context())
			wantErr(t, err, holdfast.ErrLocked)
		}
		if h.Token() <= r2.Token() {
			t.Errorf("the writer's token is %d after the reader's %d", h.Token(), r2.Token())
		}
		unlock(t, h)
		wantQueued(t, client(t, srv), 0)
	})
}

// Readers that come while a writer waits stay behind it. Readers that came before it do not
// wait for it. Nobody starves (hazards 30 and 58).
func TestNobodyOvertakesAWaitingWriter(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		reader := lock(t, rw(t, srv).RLocker())
		w := wait(t.Context(), rw(t, srv))
		late := wait(t.Context(), rw(t, srv).RLocker())
		_, err := rw(t, srv).TryRLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		if !late.waiting() {
			t.Fatal("a reader passed a waiting writer")
		}
		unlock(t, reader)
		h := w.got(t)
		if !late.waiting() {
			t.Fatal("a reader holds the lock beside a writer")
		}
		unlock(t, h)
		unlock(t, late.got(t))
	})
}

// One writer's end wakes one reader. Curator's readers all watch the first writer, and list
// again whenever one goes (hazard 53).
func TestReadersAreWokenByTheNearestWriterAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		w1 := lock(t, rw(t, srv))
		w2 := wait(t.Context(), rw(t, srv))
		var readers []*waiter
		for range 20 {
			readers = append(readers, wait(t.Context(), rw(t, srv).RLocker()))
		}
		var lists atomic.Int64
		srv.Intercept(zkproto.OpGetChildren2, func(string) zktest.Action {
			lists.Add(1)
			return zktest.Pass
		})
		unlock(t, w1)
		h := w2.got(t)
		synctest.Wait()
		if n := lists.Load(); n != 1 {
			t.Errorf("%d clients listed the queue when the first writer went; want 1", n)
		}
		unlock(t, h)
		for _, r := range readers {
			unlock(t, r.got(t))
		}
	})
}

// All kinds of locks in one directory respect each other's nodes.
func TestMutexAndRWMutexOnOnePathExcludeEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := holdfast.NewMutex(client(t, srv), lockPath)
		lockers := map[string]holdfast.Locker{"mutex": m, "writer": rw(t, srv), "reader": rw(t, srv).RLocker()}
		for a, first := range lockers {
			for b, second := range lockers {
				h := lock(t, first)
				got, err := second.TryLock(t.Context())
				if a == "reader" && b == "reader" {
					if err != nil {
						t.Errorf("%s after %s: %v", b, a, err)
						continue
					}
					unlock(t, got)
				} else if wantErr(t, err, holdfast.ErrLocked); err == nil {
					t.Fatalf("%s is held beside %s", b, a)
				}
				unlock(t, h)
			}
		}
	})
}

func TestWriterTakesTheReadSideAtItsOwnPlace(t *testing.T) {
	for _, layout := range []holdfast.Layout{layout.Curator, layout.Kazoo, layout.HostRW} {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				use := holdfast.WithLayout(layout)
				m := rw(t, srv, use)
				w := lock(t, m)
				otherWriter := wait(t.Context(), rw(t, srv, use))
				otherReader := wait(t.Context(), rw(t, srv, use).RLocker())

				r, err := m.RLock(w.Context())
				if err != nil {
					t.Fatal(err)
				}
				if r.Token() != w.Token() {
					t.Errorf("token %d as a reader, %d as a writer", r.Token(), w.Token())
				}
				entries, err := holdfast.List(t.Context(), client(t, srv), lockPath, layout)
				if err != nil || len(entries) != 4 {
					t.Fatal(entries, err)
				}
				for i, e := range entries {
					if e.Held != (i < 2) || e.Held && e.Token != w.Token() || e.Shared != (i == 1 || i == 3) {
						t.Errorf("%d: %+v", i, e)
					}
				}
				unlock(t, w)
				if !otherWriter.waiting() || r.Context().Err() != nil {
					t.Fatal("a writer acquired the lock in between")
				}
				// The writer was there before the other reader.
				if !otherReader.waiting() {
					t.Fatal("a reader passed the waiting writer")
				}
				// Without a writer in between, a reader would share; see below.
				unlock(t, r)
				h := otherWriter.got(t)
				if h.Token() <= r.Token() {
					t.Errorf("the next writer's token %d after %d", h.Token(), r.Token())
				}
				unlock(t, h)
				unlock(t, otherReader.got(t))
				wantQueued(t, client(t, srv), 0)
			})
		})
	}
}

func TestDowngradeLetsTheReadersBehindIn(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := rw(t, srv)
		w := lock(t, m)
		reader := wait(t.Context(), rw(t, srv).RLocker())
		r, err := m.RLock(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !reader.waiting() {
			t.Fatal("a reader holds the lock beside the writer")
		}
		unlock(t, w)
		unlock(t, reader.got(t)) // while r is held
		_, err = m.Lock(r.Context())
		wantErr(t, err, holdfast.ErrDeadlock)
		unlock(t, r)
	})
}

// The transaction that makes the second node is lost, in either direction.
func TestDowngradeSurvivesALostConnection(t *testing.T) {
	for _, fault := range faults {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				m := rw(t, srv)
				w := lock(t, m)
				var hit atomic.Bool
				srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
					if hit.CompareAndSwap(false, true) {
						return fault
					}
					return zktest.Pass
				})
				r, err := m.RLock(w.Context())
				if err != nil {
					t.Fatal(err)
				}
				wantQueued(t, client(t, srv), 2)
				unlock(t, w)
				wantQueued(t, client(t, srv), 1)
				unlock(t, r)
				wantQueued(t, client(t, srv), 0)
				if !hit.Load() {
					t.Error("the fault never struck")
				}
			})
		})
	}
}

// The writer's node is gone, but the writer has not been told. It must not leave a reader's
// node in a place that is no longer its own.
func TestDowngradeOfALostWriterFails(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, m := client(t, srv), rw(t, srv)
		w := lock(t, m)
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			srv.Intercept(zkproto.OpMulti, nil)
			if err := c.Delete(t.Context(), w.Path(), zk.AnyVersion); err != nil {
				t.Error(err)
			}
			return zktest.Pass
		})
		_, err := m.RLock(context.WithoutCancel(w.Context()))
		wantErr(t, err, holdfast.ErrLost)
		<-w.Lost()
		wantQueued(t, c, 0)
	})
}

func TestReaderThatAsksForTheWriteSideIsADeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for _, opts := range [][]holdfast.Option{nil, {holdfast.Reentrant()}} {
			m := holdfast.NewRWMutex(c, lockPath, opts...)
			r := lock(t, m.RLocker())
			for _, ask := range []func(context.Context) (*holdfast.Hold, error){m.Lock, m.TryLock, holdfast.NewMutex(c, lockPath, opts...).Lock} {
				_, err := ask(r.Context())
				wantErr(t, err, holdfast.ErrDeadlock)
			}
			unlock(t, r)
		}
	})
}

// Many goroutines read and write over connections that break all the time. The counter loses
// nothing, and no reader sees a writer.
func TestReadersAndWritersUnderFaults(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var frames atomic.Int64
		var healed atomic.Bool
		for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpGetData, zkproto.OpGetChildren2, zkproto.OpDelete} {
			srv.Intercept(op, func(path string) zktest.Action {
				if !healed.Load() && strings.HasPrefix(path, lockPath) && frames.Add(1)%37 == 0 {
					return faults[frames.Load()%2]
				}
				return zktest.Pass
			})
		}
		var wg sync.WaitGroup
		var readers, writers atomic.Int32
		count := 0
		for i := range 4 {
			m := rw(t, srv)
			for j := range 6 {
				wg.Go(func() {
					for range 6 {
						if (i+j)%3 == 0 {
							h := lock(t, m)
							if writers.Add(1) != 1 || readers.Load() != 0 {
								t.Error("a writer is not alone")
							}
							count++
							time.Sleep(time.Millisecond)
							writers.Add(-1)
							unlock(t, h)
							continue
						}
						h := lock(t, m.RLocker())
						readers.Add(1)
						if writers.Load() != 0 {
							t.Error("a reader holds the lock beside a writer")
						}
						time.Sleep(time.Millisecond)
						readers.Add(-1)
						unlock(t, h)
					}
				})
			}
		}
		wg.Wait()
		healed.Store(true)
		if count != 48 {
			t.Errorf("count is %d; want 48", count)
		}
		wantQueued(t, client(t, srv), 0)
	})
}

// A Mutex in a layout without readers also waits for writers of other layouts. A writer that
// takes the read side and unlocks the write side still holds the lock, as a reader.
func TestMutexOfALayoutWithoutReadersWaitsForADowngradedWriter(t *testing.T) {
	dashes := holdfast.Layout{Name: "dashes", Mutex: "{uuid}-", Exclusive: []string{"*-"}}
	for _, tt := range []struct{ writer, waiter holdfast.Layout }{
		{layout.Curator, layout.GoZookeeper},
		{layout.Kazoo, layout.GoZookeeper},
		{layout.HostRW, layout.WriteLock},
		{layout.HostRW, dashes},
	} {
		t.Run(tt.writer.Name+", "+tt.waiter.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				m := rw(t, srv, holdfast.WithLayout(tt.writer))
				w := lock(t, m)
				behind := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithLayout(tt.waiter)))
				r, err := m.RLock(w.Context())
				if err != nil {
					t.Fatal(err)
				}
				unlock(t, w)
				if !behind.waiting() {
					t.Error("the mutex is held beside a reader")
				}
				unlock(t, r)
				unlock(t, behind.got(t))
			})
		})
	}
}

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

// A writer that has come through a long queue and takes the read side leaves no watermark: the
// reader is in its place.
func TestWriterThatStepsDownLeavesNoMark(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var all []*standing
		for range 40 {
			all = append(all, stand(t, srv, writeAt))
		}
		drain(t, all[:34])
		c := all[34].Client
		before := directoryData(t, c)
		r, err := holdfast.NewRWMutex(c, lockPath).RLock(all[34].hold.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, all[34].hold)
		if !all[35].waiting() {
			t.Fatal("a writer holds the lock beside a reader")
		}
		all[35].cancel() // its watcher must not take the next for the head
		time.Sleep(time.Second)
		if got := directoryData(t, c); got != before {
			t.Errorf("a watermark was left: %q, before %q", got, before)
		}
		for _, s := range all[36:] {
			if !s.waiting() {
				t.Fatal("a writer holds the lock beside a reader")
			}
		}
		unlock(t, r)
		drain(t, all[36:])
	})
}

// namelessReaders are layouts whose names do not tell the readers of one writer apart.
var namelessReaders = []holdfast.Layout{
	layout.HostRW,
	{Name: "session", Mutex: "{session}-W-", Write: "{session}-W-", Read: "{session}-R-", Exclusive: []string{"*-W-"}, Shared: []string{"*-R-"}},
	{Name: "bare", Mutex: "w-", Write: "w-", Read: "r-", Exclusive: []string{"w-"}, Shared: []string{"r-"}},
	{Name: "writers with ids", Mutex: "w-{uuid}-", Write: "w-{uuid}-", Read: "r-", Exclusive: []string{"w-*-"}, Shared: []string{"r-"}},
}

func inNamelessLayouts(t *testing.T, f func(t *testing.T, srv *zktest.Server, of func(...holdfast.Option) *holdfast.RWMutex, next func() *waiter)) {
	for _, l := range namelessReaders {
		t.Run(l.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c, in := client(t, srv), holdfast.WithLayout(l)
				f(t, srv, func(opts ...holdfast.Option) *holdfast.RWMutex {
					return holdfast.NewRWMutex(c, lockPath, append(opts, in)...)
				}, func() *waiter { return wait(t.Context(), rw(t, srv, in)) })
			})
		})
	}
}

func readUnder(t *testing.T, m *holdfast.RWMutex, w *holdfast.Hold) *holdfast.Hold {
	t.Helper()
	r, err := m.RLock(w.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.Token() != w.Token() {
		t.Errorf("the reader has the token %d, the writer %d", r.Token(), w.Token())
	}
	return r
}

// A writer takes the read side as often as it likes, one after the other and at one time. The lock is the writer's until
// all of them are unlocked. In these layouts, all of them share one node.
func TestWriterTakesTheReadSideManyTimes(t *testing.T) {
	inNamelessLayouts(t, func(t *testing.T, srv *zktest.Server, of func(...holdfast.Option) *holdfast.RWMutex, next func() *waiter) {
		c, m := client(t, srv), of()
		w := lock(t, m)
		other := next()
		readers := []*holdfast.Hold{readUnder(t, m, w), readUnder(t, m, w)}
		unlock(t, readers[0])
		unlock(t, readers[1])
		readers = []*holdfast.Hold{readUnder(t, m, w)} // after all have left
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				r := readUnder(t, m, w)
				mu.Lock()
				defer mu.Unlock()
				readers = append(readers, r)
			})
		}
		all.Wait()
		wantQueued(t, c, 3) // the writer, its readers, the other
		unlock(t, w)
		for i, r := range readers {
			if !other.waiting() {
				t.Fatalf("a writer holds the lock beside %d readers", len(readers)-i)
			}
			if err := r.Err(); err != nil {
				t.Fatal(err)
			}
			unlock(t, r)
		}
		unlock(t, other.got(t))
		wantQueued(t, c, 0)
	})
}

// The node of a reader that has left is still there, since its removal is on its way. The next one waits for that.
func TestReadSideWhileTheReaderBeforeLeaves(t *testing.T) {
	inNamelessLayouts(t, func(t *testing.T, srv *zktest.Server, of func(...holdfast.Option) *holdfast.RWMutex, next func() *waiter) {
		m := of()
		w := lock(t, m)
		other := next()
		r := readUnder(t, m, w)
		gone := make(chan struct{})
		var held atomic.Bool
		srv.Intercept(zkproto.OpDelete, func(string) zktest.Action {
			if held.CompareAndSwap(false, true) {
				return zktest.Throttle
			}
			select {
			case <-gone:
				return zktest.Pass
			default:
				return zktest.Throttle
			}
		})
		ended := make(chan error)
		go func() { ended <- r.Unlock() }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(w.Context(), time.Second)
		defer cancel()
		_, err := m.RLock(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		again := make(chan *holdfast.Hold)
		go func() { again <- readUnder(t, m, w) }()
		time.Sleep(time.Second)
		close(gone)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r = <-again
		unlock(t, w)
		if !other.waiting() {
			t.Error("a writer holds the lock beside a reader")
		}
		unlock(t, r)
		unlock(t, other.got(t))
	})
}

// The same where nobody may read the node of that reader, so no event tells that it is gone.
func TestReadSideWhileAHiddenReaderLeaves(t *testing.T) {
	for _, when := range []string{"before the wait", "during the wait"} {
		inNamelessLayouts(t, func(t *testing.T, srv *zktest.Server, of func(...holdfast.Option) *holdfast.RWMutex, _ func() *waiter) {
			admin, m := client(t, srv), of()
			w := lock(t, m)
			r := readUnder(t, m, w)
			var stays atomic.Bool
			stays.Store(true)
			srv.Intercept(zkproto.OpDelete, func(string) zktest.Action {
				if stays.Load() {
					return zktest.Throttle
				}
				return zktest.Pass
			})
			ended := make(chan error)
			go func() { ended <- r.Unlock() }()
			synctest.Wait()
			if when == "before the wait" {
				hide(t, admin, r.Path())
			}
			again := make(chan error, 1)
			go func() {
				h, err := m.RLock(w.Context())
				if err == nil {
					err = h.Unlock()
				}
				again <- err
			}()
			time.Sleep(time.Second)
			hide(t, admin, r.Path())
			time.Sleep(time.Second)
			stays.Store(false)
			if err := <-ended; err != nil {
				t.Error(err)
			}
			select {
			case err := <-again:
				if err != nil {
					t.Errorf("%s: %v", when, err)
				}
			case <-time.After(longestLook + 2*time.Second):
				t.Errorf("%s: the writer waits for a reader that is gone", when)
			}
			unlock(t, w)
		})
	}
}

// Somebody removes the readers' node: all of them have lost the lock. The writer has not, and takes the read side again.
func TestReadersThatShareANodeLoseItTogether(t *testing.T) {
	inNamelessLayouts(t, func(t *testing.T, srv *zktest.Server, of func(...holdfast.Option) *holdfast.RWMutex, next func() *waiter) {
		c, m := client(t, srv), of()
		w := lock(t, m)
		readers := []*holdfast.Hold{readUnder(t, m, w), readUnder(t, m, w)}
		time.Sleep(time.Second)
		if err := c.Delete(t.Context(), readers[0].Path(), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		for _, r := range readers {
			<-r.Lost()
		}
		if err := w.Err(); err != nil {
			t.Fatal(err)
		}
		r := readUnder(t, m, w)
		for _, r := range readers {
			wantErr(t, r.Unlock(), holdfast.ErrLost)
		}
		other := next()
		unlock(t, w)
		if !other.waiting() {
			t.Error("the end of the lost readers has removed the node of the next one")
		}
		unlock(t, r)
		unlock(t, other.got(t))
		wantQueued(t, c, 0)
	})
}

// The next reader's node has the name and the version of this one's. So a holder does not write into its node.
func TestReaderNodesThatComeBackAreNotRewritten(t *testing.T) {
	inNamelessLayouts(t, func(t *testing.T, srv *zktest.Server, of func(...holdfast.Option) *holdfast.RWMutex, next func() *waiter) {
		m := of()
		w := lock(t, m)
		r := readUnder(t, m, w)
		time.Sleep(10 * time.Second)
		if _, stat, err := client(t, srv).Get(t.Context(), r.Path()); err != nil || stat.Version != 0 {
			t.Errorf("version %d, %v", stat.Version, err)
		}
		unlock(t, r)
		unlock(t, w)
	})
}

// Each request of a second reader is lost once.
func TestSecondReaderUnderLostConnections(t *testing.T) {
	for _, op := range []zkproto.Op{zkproto.OpMulti, zkproto.OpGetData, zkproto.OpExists, zkproto.OpDelete} {
		for _, fault := range faults {
			t.Run(fmt.Sprintf("%v/%v", op, fault), func(t *testing.T) {
				inNamelessLayouts(t, func(t *testing.T, srv *zktest.Server, of func(...holdfast.Option) *holdfast.RWMutex, next func() *waiter) {
					m := of()
					w := lock(t, m)
					other := next()
					var n atomic.Int32
					srv.Intercept(op, func(string) zktest.Action {
						if n.Add(1) <= 2 {
							return fault
						}
						return zktest.Pass
					})
					first := readUnder(t, m, w)
					unlock(t, first)
					readers := []*holdfast.Hold{readUnder(t, m, w), readUnder(t, m, w)}
					unlock(t, w)
					for _, r := range readers {
						if !other.waiting() {
							t.Fatal("a writer holds the lock beside a reader")
						}
						unlock(t, r)
					}
					unlock(t, other.got(t))
					wantQueued(t, client(t, srv), 0)
				})
			})
		}
	}
}
