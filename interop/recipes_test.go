//go:build unix

package interop

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/zk"
)

// candidate is an election's Campaign as a Locker.
type candidate struct {
	*holdfast.Election
	value string
}

func (c candidate) Lock(ctx context.Context) (*holdfast.Hold, error) {
	return c.Campaign(ctx, []byte(c.value))
}

func (c candidate) TryLock(context.Context) (*holdfast.Hold, error) { panic("not offered") }

// permits is an Acquire as a Locker.
type permits struct {
	*holdfast.Semaphore
	n int
}

func (p permits) Lock(ctx context.Context) (*holdfast.Hold, error)    { return p.Acquire(ctx, p.n) }
func (p permits) TryLock(ctx context.Context) (*holdfast.Hold, error) { return p.TryAcquire(ctx, p.n) }

// recipes are the kinds of lock. For each: the lock of the i-th of several sessions, and its
// share of the whole.
var recipes = []struct {
	name string
	of   func(c *zk.Client, path string, i int) (l holdfast.Locker, share int)
	all  int
}{
	{"RWMutex", func(c *zk.Client, path string, i int) (holdfast.Locker, int) {
		m := holdfast.NewRWMutex(c, path)
		if i%3 == 0 {
			return m, 100
		}
		return m.RLocker(), 1
	}, 100},
	{"RWMutex in kazoo's layout", func(c *zk.Client, path string, i int) (holdfast.Locker, int) {
		m := holdfast.NewRWMutex(c, path, holdfast.WithLayout(layout.Kazoo))
		if i%3 == 0 {
			return m, 100
		}
		return m.RLocker(), 1
	}, 100},
	{"Semaphore", func(c *zk.Client, path string, i int) (holdfast.Locker, int) {
		return permits{holdfast.NewSemaphore(c, path, 3), 1 + i%2}, 1 + i%2
	}, 3},
	{"Semaphore in kazoo's layout", func(c *zk.Client, path string, i int) (holdfast.Locker, int) {
		return permits{holdfast.NewSemaphore(c, path, 3, holdfast.WithLayout(layout.Kazoo)), 1 + i%2}, 1 + i%2
	}, 3},
	{"MultiLock", func(c *zk.Client, path string, i int) (holdfast.Locker, int) {
		ls := []holdfast.Locker{holdfast.NewMutex(c, path+"/a"), holdfast.NewMutex(c, path+"/b"), holdfast.NewNodeLock(c, path+"/c")}
		return holdfast.NewMultiLock(ls[i%3], ls[(i+1)%3], ls[(i+2)%3]), 1
	}, 1},
	{"NodeLock", func(c *zk.Client, path string, i int) (holdfast.Locker, int) {
		return holdfast.NewNodeLock(c, path), 1
	}, 1},
	{"Election", func(c *zk.Client, path string, i int) (holdfast.Locker, int) {
		return candidate{holdfast.NewElection(c, path), fmt.Sprint(i)}, 1
	}, 1},
	{"WriteLock's layout", func(c *zk.Client, path string, i int) (holdfast.Locker, int) {
		return holdfast.NewMutex(c, path, holdfast.WithLayout(layout.WriteLock)), 1
	}, 1},
}

// Every kind of lock runs on an ensemble of Apache's servers. Never more holders than allowed,
// and nothing is left behind. All updates by Commit are there.
func TestRecipesOnAnApacheEnsemble(t *testing.T) {
	z := ensemble.get(t)
	for i, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			const sessions, turns = 6, 15
			path, counter := fmt.Sprintf("/recipes/%d", i), fmt.Sprintf("/recipes-%d-count", i)
			url := fmt.Sprintf("%s?tick=%v", z.URL(), z.Tick())
			watcher := dialURL(t, url)
			_, _, err := watcher.Create(t.Context(), counter, nil, zk.Persistent)
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 2*stepTime)
			defer cancel()
			var wg sync.WaitGroup
			var held atomic.Int32
			for i := range sessions {
				l, share := r.of(dialURL(t, url), path, i)
				wg.Go(func() {
					for range turns {
						h, err := l.Lock(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						if n := held.Add(int32(share)); n > int32(r.all) {
							t.Errorf("%d held at once, of %d", n, r.all)
						}
						if _, err := h.Commit(ctx, zk.SetOp(counter, nil, zk.AnyVersion)); err != nil {
							t.Error(err)
						}
						held.Add(-int32(share))
						if err := h.Unlock(); err != nil {
							t.Error(err)
						}
					}
				})
			}
			wg.Wait()
			must(t, catchUp(ctx, watcher, counter)) // the watcher's server may lag behind the holders'
			stat, _, err := watcher.Exists(ctx, counter)
			must(t, err)
			if stat.Version != sessions*turns {
				t.Errorf("%d commits; want %d", stat.Version, sessions*turns)
			}
			entries, err := holdfast.List(ctx, watcher, path)
			must(t, err)
			for _, e := range entries {
				t.Errorf("left: %+v", e)
			}
		})
	}
}

// Apache's servers differ from ours in the transactions of the recipes: no zxid in the answers,
// and errors at the operation at fault.
func TestHoldsOnApacheAreFencedAndTold(t *testing.T) {
	z := ensemble.get(t)
	url := fmt.Sprintf("%s?tick=%v", z.URL(), z.Tick())
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	admin := dialURL(t, url)
	const dir = "/holds-on-apache"

	t.Run("downgrade", func(t *testing.T) {
		m := holdfast.NewRWMutex(dialURL(t, url), dir+"/rw")
		w, err := m.Lock(ctx)
		must(t, err)
		r, err := m.RLock(w.Context())
		must(t, err)
		if r.Token() != w.Token() {
			t.Errorf("token %#x as a reader, %#x as a writer", r.Token(), w.Token())
		}
		must(t, w.Unlock())
		other, err := holdfast.NewRWMutex(admin, dir+"/rw").TryRLock(ctx)
		must(t, err)
		must(t, other.Unlock())
		must(t, r.Unlock())
	})
	t.Run("permits have the zxid of their transaction", func(t *testing.T) {
		s := holdfast.NewSemaphore(dialURL(t, url), dir+"/sem", 3)
		h, err := s.Acquire(ctx, 2)
		must(t, err)
		must(t, catchUp(ctx, admin, dir)) // List syncs, which is not enough on the leader
		entries, err := holdfast.List(ctx, admin, dir+"/sem")
		must(t, err)
		if len(entries) != 2 || entries[0].Token != h.Token() || entries[1].Token != h.Token() {
			t.Errorf("token %#x; listed %+v", h.Token(), entries)
		}
		must(t, holdfast.Break(ctx, admin, dir+"/sem", h.Token()))
		<-h.Lost()
		if _, err := h.Commit(ctx, zk.SetOp("/", nil, zk.AnyVersion)); err == nil {
			t.Error("Commit succeeded after the loss")
		}
		h.Unlock()
	})
	t.Run("revoke and observe", func(t *testing.T) {
		e := holdfast.NewElection(dialURL(t, url), dir+"/election")
		h, err := e.Campaign(ctx, []byte("a"))
		must(t, err)
		for l, err := range holdfast.NewElection(admin, dir+"/election").Leaders(ctx) {
			must(t, err)
			if l.Term != h.Token() {
				t.Errorf("term %#x; want %#x", l.Term, h.Token())
			}
			if string(l.Value) == "b" {
				break
			}
			must(t, e.Proclaim(ctx, h, []byte("b")))
		}
		must(t, holdfast.Revoke(ctx, admin, dir+"/election", h.Token()))
		select {
		case <-h.Revoked():
		case <-time.After(stepTime):
			t.Error("not asked")
		}
		must(t, h.Unlock())
	})
}
