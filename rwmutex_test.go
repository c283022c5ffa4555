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

// When a writer gives up, the readers behind it join the reader that holds the lock.
func TestReadersMoveUpWhenTheWriterAheadGivesUp(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		reader := lock(t, rw(t, srv).RLocker())
		ctx, cancel := context.WithCancel(t.Context())
		w := wait(ctx, rw(t, srv))
		late := wait(t.Context(), rw(t, srv).RLocker())
		cancel()
		<-w.done
		unlock(t, late.got(t))
		unlock(t, reader)
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
