package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

var layouts = []holdfast.Layout{
	holdfast.LayoutCurator, holdfast.LayoutLeaderLatch, holdfast.LayoutKazoo, holdfast.LayoutGoZookeeper,
	holdfast.LayoutWriteLock, holdfast.LayoutHostRW, holdfast.LayoutSessionID, holdfast.LayoutArticle, holdfast.LayoutNamed("db"),
}

// Every layout finds its own nodes again, even if its names do not tell two goroutines of one
// session apart. Answers to creates and deletes are lost all the time. Still one client
// holds the lock at a time, and nothing is left (hazards 4, 18, 19; WriteLocks of one
// session adopt each other's nodes).
func TestEveryLayoutFindsItsOwnNodeAgain(t *testing.T) {
	for _, layout := range layouts {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				use := holdfast.WithLayout(layout)
				c := client(t, srv)
				unlock(t, lock(t, holdfast.NewMutex(c, lockPath, use)))
				var n, hits atomic.Int64
				for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpDelete} {
					srv.Intercept(op, func(path string) zktest.Action {
						if n.Add(1)%5 == 0 {
							return faults[hits.Add(1)%2]
						}
						return zktest.Pass
					})
				}
				var wg sync.WaitGroup
				holders, count, token := atomic.Int32{}, 0, int64(0)
				for range 2 {
					m := holdfast.NewMutex(c, lockPath, use)
					for range 3 {
						wg.Go(func() {
							for range 5 {
								h := lock(t, m)
								if holders.Add(1) != 1 {
									t.Error("two hold the lock")
								}
								if h.Token() <= token {
									t.Errorf("token %d after %d; want it to grow", h.Token(), token)
								}
								token = h.Token()
								count++
								time.Sleep(time.Millisecond)
								holders.Add(-1)
								unlock(t, h)
							}
						})
					}
				}
				wg.Wait()
				wantQueued(t, c, 0)
				if count != 30 || hits.Load() == 0 {
					t.Errorf("count is %d, %d faults; want 30 and at least one fault", count, hits.Load())
				}
			})
		})
	}
}

func TestParentsAreWhatTheLayoutSays(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		var containers atomic.Int32
		srv.Intercept(zkproto.OpCreateContainer, func(string) zktest.Action {
			containers.Add(1)
			return zktest.Pass
		})
		unlock(t, lock(t, holdfast.NewMutex(c, "/a/b", holdfast.WithLayout(holdfast.LayoutKazoo))))
		if n := containers.Load(); n != 0 {
			t.Errorf("%d containers for kazoo, which fails when its directory is gone; want none", n)
		}
		unlock(t, lock(t, holdfast.NewMutex(c, "/c/d")))
		if n := containers.Load(); n < 2 {
			t.Errorf("%d containers in Curator's layout; want 2", n)
		}
	})
}

func TestWithValueIsTheNodesData(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithValue([]byte("10.0.0.5")), holdfast.WithOwner("nobody")))
		if data, _, err := c.Get(t.Context(), h.Path()); err != nil || string(data) != "10.0.0.5" {
			t.Errorf("%q, %v", data, err)
		}
		unlock(t, h)
		_, err := holdfast.NewMutex(c, lockPath, holdfast.WithValue(nil), holdfast.WithLayout(holdfast.LayoutSessionID)).Lock(t.Context())
		wantErr(t, err, holdfast.ErrLayout)
		wantQueued(t, c, 0)
	})
}

func TestWithACLIsOnEveryNodeThatTheLockMakes(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		acl := zk.ACL{Perms: 31, Scheme: "ip", ID: "0.0.0.0/0"}
		open := holdfast.NewMutex(c, "/open/a")
		unlock(t, lock(t, open))
		m := holdfast.NewRWMutex(c, "/mine/a", holdfast.WithACL(zk.ACL{Perms: 31, Scheme: "world", ID: "anyone"}, acl))
		w := lock(t, m)
		r, err := m.RLock(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/mine", "/mine/a", w.Path(), r.Path()} {
			got, _, err := c.GetACL(t.Context(), path)
			if err != nil || !strings.Contains(fmt.Sprint(got), acl.ID) {
				t.Errorf("%s: %v, %v", path, got, err)
			}
		}
		unlock(t, r)
		unlock(t, w)
	})
}

// Every option with every kind: the kind honours it, or every call on the lock fails with an error that
// names both.
func TestOptionsThatAKindCannotHonourAreErrors(t *testing.T) {
	options := map[string]holdfast.Option{
		"WithOwner":           holdfast.WithOwner("api-7"),
		"WithReason":          holdfast.WithReason("reindex"),
		"WithValue":           holdfast.WithValue([]byte("10.0.0.5")),
		"WithACL":             holdfast.WithACL(zk.ACL{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}),
		"WithLayout":          holdfast.WithLayout(holdfast.LayoutCurator),
		"Reentrant":           holdfast.Reentrant(),
		"WithObserver":        holdfast.WithObserver(&holdfast.Observer{}),
		"WithLocalHandoff":    holdfast.WithLocalHandoff(5),
		"WithLocalHandoff(0)": holdfast.WithLocalHandoff(0),
		"WithKeep":            holdfast.WithKeep(time.Second),
		"WithKeep(0)":         holdfast.WithKeep(0),
	}
	type call func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error
	of := func(l func(*zk.Client, ...holdfast.Option) holdfast.Locker) map[string]call {
		return map[string]call{
			"lock": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				return locked(l(c, opts...).Lock(ctx))
			},
			"try lock": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				return locked(l(c, opts...).TryLock(ctx))
			},
			"several": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				return locked(holdfast.NewMultiLock(l(c, opts...)).Lock(ctx))
			},
		}
	}
	semaphore := of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewSemaphore(c, lockPath, 2, opts...).Locker()
	})
	semaphore["set limit"] = func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		return holdfast.NewSemaphore(c, lockPath, 2, opts...).SetLimit(ctx, 2)
	}
	semaphore["available"] = func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		_, _, err := holdfast.NewSemaphore(c, lockPath, 2, opts...).Available(ctx)
		return err
	}
	kinds := []struct {
		name    string
		calls   map[string]call
		refuses []string
	}{
		{"Mutex", of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, opts...)
		}), nil},
		{"RWMutex", of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewRWMutex(c, lockPath, opts...)
		}), nil},
		{"RWMutex, read side", of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewRWMutex(c, lockPath, opts...).RLocker()
		}), nil},
		{"Tree", of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewTree(c, lockPath, opts...).Path("a")
		}), []string{"WithLocalHandoff", "WithKeep", "Reentrant"}},
		{"Semaphore", semaphore, []string{"Reentrant", "WithLocalHandoff", "WithKeep"}},
		{"Slots", of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewSlots(c, lockPath, 2, opts...).Locker()
		}), []string{"WithValue", "WithLayout", "WithLocalHandoff", "WithKeep", "Reentrant"}},
		{"NodeLock", of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewNodeLock(c, lockPath, opts...)
		}), []string{"WithValue", "WithLayout", "WithLocalHandoff", "WithKeep"}},
		{"Election", map[string]call{
			"campaign": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				return locked(holdfast.NewElection(c, lockPath, opts...).Campaign(ctx, nil))
			},
			"lead": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				return holdfast.NewElection(c, lockPath, opts...).Lead(ctx, nil, func(context.Context) error { return nil })
			},
			"leader": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				_, err := holdfast.NewElection(c, lockPath, opts...).Leader(ctx)
				if errors.Is(err, holdfast.ErrNoLeader) {
					return nil
				}
				return err
			},
			"leaders": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				for _, err := range holdfast.NewElection(c, lockPath, opts...).Leaders(ctx) {
					return err
				}
				return nil
			},
			"proclaim": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				h, err := holdfast.NewElection(c, lockPath).Campaign(ctx, nil)
				if err != nil {
					return errors.New("the campaign has failed")
				}
				defer h.Unlock()
				return holdfast.NewElection(c, lockPath, opts...).Proclaim(ctx, h, nil)
			},
		}, []string{"WithOwner", "WithReason", "WithValue", "Reentrant", "WithLocalHandoff", "WithKeep"}},
	}
	for _, kind := range kinds {
		for name, call := range kind.calls {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					for option, use := range options {
						err := call(t.Context(), c, use)
						if option == "WithKeep" {
							time.Sleep(2 * time.Second) // until the lock is not kept any more
						}
						var failed *holdfast.Error
						switch {
						case !slices.Contains(kind.refuses, option):
							if err != nil {
								t.Errorf("%s: %v; want no error", option, err)
							}
						case !errors.Is(err, zk.ErrBadArguments), !errors.As(err, &failed), !strings.HasPrefix(failed.Path, lockPath),
							!strings.Contains(err.Error(), option), !strings.Contains(err.Error(), kind.name):
							t.Errorf("%s: %v; want %v of %s that names the option and the kind", option, err, zk.ErrBadArguments, name)
						}
					}
				})
			})
		}
	}
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		_, err := holdfast.NewNodeLock(c, lockPath, options["WithLayout"], options["WithOwner"], options["WithLocalHandoff"]).Lock(t.Context())
		if err == nil || !strings.Contains(err.Error(), "WithLayout, WithLocalHandoff") || strings.Contains(err.Error(), "WithOwner") {
			t.Errorf("%v; want an error that names both options", err)
		}
		// The last one counts.
		unlock(t, lock(t, holdfast.NewNodeLock(c, lockPath, options["WithLocalHandoff"], options["WithLocalHandoff(0)"])))
	})
}

// Options of a Once and of Shards are errors elsewhere, not ignored.
func TestOptionsOfAOnceAndOfShardsAreRefusedElsewhere(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for name, o := range map[string]holdfast.Option{
			"AtMostOnce": holdfast.AtMostOnce(), "ForgetAfter": holdfast.ForgetAfter(time.Hour), "WithWeight": holdfast.WithWeight(2),
			"WithSettle": holdfast.WithSettle(0), "WithMoveLimit": holdfast.WithMoveLimit(time.Hour), "WithHandover": holdfast.WithHandover(0),
		} {
			for kind, l := range map[string]holdfast.Locker{
				"Mutex": holdfast.NewMutex(c, lockPath, o), "RWMutex": holdfast.NewRWMutex(c, lockPath, o), "read side": holdfast.NewRWMutex(c, lockPath, o).RLocker(),
				"Semaphore": holdfast.NewSemaphore(c, lockPath, 2, o).Locker(), "Slots": holdfast.NewSlots(c, lockPath, 2, o).Locker(),
				"NodeLock": holdfast.NewNodeLock(c, lockPath, o), "Tree": holdfast.NewTree(c, lockPath, o).Path("a"), "Election": candidate{holdfast.NewElection(c, lockPath, o), "me"},
			} {
				_, err := l.Lock(t.Context())
				wantErr(t, err, zk.ErrBadArguments)
				if !strings.Contains(fmt.Sprint(err), name) {
					t.Errorf("%s: %v; want the name of %s in it", kind, err, name)
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for name, o := range map[string]holdfast.Option{"WithWeight": holdfast.WithWeight(2), "WithSettle": holdfast.WithSettle(0)} {
			_, err := holdfast.NewOnce(c, lockPath, o).Do(ctx, "a", func(context.Context) ([]byte, error) { return nil, nil })
			wantErr(t, err, zk.ErrBadArguments)
			if !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("Once: %v", err)
			}
		}
		for name, o := range map[string]holdfast.Option{
			"AtMostOnce": holdfast.AtMostOnce(), "WithValue": holdfast.WithValue([]byte("x")), "Reentrant": holdfast.Reentrant(), "WithLocalHandoff": holdfast.WithLocalHandoff(2),
			"WithKeep": holdfast.WithKeep(time.Minute),
		} {
			err := holdfast.NewShards(c, lockPath, 2, o).Run(ctx, func(context.Context, holdfast.Shard) error { return nil })
			wantErr(t, err, zk.ErrBadArguments)
			if !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("Shards: %v", err)
			}
		}
		wantNoNodes(t, c)
	})
}
