package holdfast_test

import (
	"context"
	"fmt"
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
