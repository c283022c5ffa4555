package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/lend"
	"holdfast/layout"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/shards"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

var layouts = []holdfast.Layout{
	layout.Curator, layout.LeaderLatch, layout.Kazoo, layout.GoZookeeper,
	layout.WriteLock, layout.HostRW, layout.SessionID, layout.Article, layout.Named("db"),
}

func TestParentsAreWhatTheLayoutSays(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		var containers atomic.Int32
		srv.Intercept(zkproto.OpCreateContainer, func(string) zktest.Action {
			containers.Add(1)
			return zktest.Pass
		})
		unlock(t, lock(t, holdfast.NewMutex(c, "/a/b", holdfast.WithLayout(layout.Kazoo))))
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
		_, err := holdfast.NewMutex(c, lockPath, holdfast.WithValue(nil), holdfast.WithLayout(layout.SessionID)).Lock(t.Context())
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

// Every option with every kind: the kind honours it, or every call on the lock fails with an error that names both. A negative
// time or number is refused in the same way.
func TestOptionsThatAKindCannotHonourAreErrors(t *testing.T) {
	options := map[string]holdfast.Option{
		"WithOwner":           holdfast.WithOwner("api-7"),
		"WithReason":          holdfast.WithReason("reindex"),
		"WithLabels":          holdfast.WithLabels(map[string]string{"team": "a"}),
		"WithinSession":       lend.WithinSession(7).(holdfast.Option),
		"WithProcess":         lend.WithProcess([]byte{7}).(holdfast.Option),
		"WithValue":           holdfast.WithValue([]byte("10.0.0.5")),
		"WithACL":             holdfast.WithACL(zk.ACL{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}),
		"WithLayout":          holdfast.WithLayout(layout.Curator),
		"Reentrant":           holdfast.Reentrant(),
		"WithObserver":        holdfast.WithObserver(&holdfast.Observer{}),
		"WithLocalHandoff":    holdfast.WithLocalHandoff(5),
		"WithLocalHandoff(0)": holdfast.WithLocalHandoff(0),
		"WithKeep":            holdfast.WithKeep(time.Second),
		"WithKeep(0)":         holdfast.WithKeep(0),
		"WithSupersede":       holdfast.WithSupersede(),
		"WithQueueMax":        holdfast.WithQueueMax(5, true),
		"WithQueueMax(0)":     holdfast.WithQueueMax(0, true),
	}
	negative := map[string]holdfast.Option{
		"WithLocalHandoff": holdfast.WithLocalHandoff(-1), "WithKeep": holdfast.WithKeep(-1), "WithQueueMax": holdfast.WithQueueMax(-1, false),
	}
	const (
		notes = "WithOwner WithReason WithLabels WithinSession WithProcess WithACL WithLocalHandoff(0) WithKeep(0) WithQueueMax(0) "
		queue = notes + "WithValue WithLayout WithObserver "
		mutex = queue + "Reentrant WithLocalHandoff WithKeep WithSupersede WithQueueMax"
	)
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
		return holdfast.NewSemaphore(c, lockPath, 2, opts...).Locker(1)
	})
	semaphore["set limit"] = func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		return holdfast.NewSemaphore(c, lockPath, 2, opts...).SetLimit(ctx, 2)
	}
	semaphore["available"] = func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
		_, _, err := holdfast.NewSemaphore(c, lockPath, 2, opts...).Available(ctx)
		return err
	}
	nothing := func(context.Context) ([]byte, error) { return nil, nil }
	kinds := []struct {
		name  string
		takes string
		calls map[string]call
	}{
		{"a Mutex", mutex, of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, opts...)
		})},
		{"an RWMutex", mutex, of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewRWMutex(c, lockPath, opts...)
		})},
		{"an RWMutex", mutex, of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewRWMutex(c, lockPath, opts...).RLocker()
		})},
		{"a Tree", queue, of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewTree(c, lockPath, opts...).Path("a")
		})},
		{"a Semaphore", queue, semaphore},
		{"a Slots", notes + "WithObserver", of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewSlots(c, lockPath, 2, opts...).Locker(1)
		})},
		{"a NodeLock", notes + "WithObserver Reentrant", of(func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewNodeLock(c, lockPath, opts...)
		})},
		{"a Detached", notes + "WithLayout", map[string]call{
			"lock": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				d := holdfast.NewDetached(c, lockPath, 0, opts...)
				claim, err := d.Lock(ctx)
				if err == nil {
					err = d.Unlock(ctx, claim.ID)
				}
				return err
			},
		}},
		{"an Election", "WithProcess WithACL WithLayout WithObserver WithLocalHandoff(0) WithKeep(0) WithQueueMax(0)", map[string]call{
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
		}},
		{"a Once", notes + "WithObserver", map[string]call{
			"do": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				_, err := once.New(c, lockPath, once.WithLock(opts...)).Key("key").Do(ctx, nothing)
				return err
			},
			"within": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				_, err := once.New(c, lockPath, once.WithLock(opts...)).Every(time.Second).Do(ctx, nothing)
				return err
			},
			"forget": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				return once.New(c, lockPath, once.WithLock(opts...)).Key("key").Forget(ctx)
			},
			"recorded": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				_, err := once.New(c, lockPath, once.WithLock(opts...)).Key("key").Recorded(ctx)
				return err
			},
		}},
		{"a Shards", notes + "WithObserver", map[string]call{
			"run": func(ctx context.Context, c *zk.Client, opts ...holdfast.Option) error {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				err := shards.New(c, lockPath, 1, shards.WithLock(opts...)).Run(ctx, func(ctx context.Context, _ shards.Shard) error {
					cancel()
					<-ctx.Done()
					return nil
				})
				if ctx.Err() != nil { // it has begun
					return nil
				}
				return err
			},
		}},
	}
	for _, kind := range kinds {
		takes := strings.Fields(kind.takes)
		for name, call := range kind.calls {
			t.Run(kind.name+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					refused := func(option, text string, err error) {
						var failed *holdfast.Error
						if !errors.Is(err, zk.ErrBadArguments) || !errors.As(err, &failed) || !strings.HasPrefix(failed.Path, lockPath) || !strings.Contains(err.Error(), text) {
							t.Errorf("%s: %v; want %v of %s that says %q", option, err, zk.ErrBadArguments, name, text)
						}
					}
					for option, use := range options {
						err := call(t.Context(), c, use)
						if option == "WithKeep" {
							time.Sleep(2 * time.Second) // until the lock is not kept any more
						}
						switch {
						case !slices.Contains(takes, option):
							refused(option, kind.name+" cannot honour "+option+":", err)
						case err != nil:
							t.Errorf("%s: %v; want no error", option, err)
						}
					}
					for option, use := range negative {
						text := option + "(-1"
						if !slices.Contains(takes, option) && !slices.Contains(takes, option+"(0)") {
							text = kind.name + " cannot honour " + option
						}
						refused(option, text, call(t.Context(), c, use))
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

// Every kind of lock says its path.
func TestPathOfALock(t *testing.T) {
	c := &zk.Client{}
	for kind, l := range map[string]interface{ Path() string }{
		"mutex": holdfast.NewMutex(c, lockPath), "read-write": holdfast.NewRWMutex(c, lockPath), "node": holdfast.NewNodeLock(c, lockPath),
		"semaphore": holdfast.NewSemaphore(c, lockPath, 2), "slots": holdfast.NewSlots(c, lockPath, 2),
		"election": holdfast.NewElection(c, lockPath), "detached": holdfast.NewDetached(c, lockPath, 0),
	} {
		if got := l.Path(); got != lockPath {
			t.Errorf("%s: %q", kind, got)
		}
	}
}

// An ownLocker is a Locker of a program.
type ownLocker struct{ holdfast.Locker }

// The error of a mistake says one thing that is wrong, where, and what to do. It has no words that are only in the
// sources.
func TestErrorsOfMistakesSayWhatToDo(t *testing.T) {
	const path = "/app/jobs"
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		lock := func(l holdfast.Locker) error {
			h, err := l.TryLock(t.Context())
			if err == nil {
				h.Unlock()
			}
			return err
		}
		ctx := t.Context()
		do := func(o *once.Once) error {
			_, err := o.Key("key").Do(ctx, func(context.Context) ([]byte, error) { return nil, nil })
			return err
		}
		run := func(n int, opts ...shards.Option) error {
			return shards.New(c, path, n, opts...).Run(ctx, func(context.Context, shards.Shard) error { return nil })
		}
		for _, tt := range []struct {
			err  error
			says string
		}{
			{lock(holdfast.NewMutex(c, "")), "holdfast: try lock: invalid path: it is empty"},
			{lock(holdfast.NewSemaphore(c, "", 2).Locker(1)), "holdfast: try acquire: invalid path: it is empty"},
			{lock(holdfast.NewNodeLock(c, "")), "holdfast: try lock: invalid path: it is empty"},
			{lock(holdfast.NewTree(c, "").Path("a")), "holdfast: try lock: invalid path: it is empty"},
			{lock(holdfast.NewTree(c, "/").Path("")), "holdfast: try lock /: invalid path \"/\": the root cannot be a lock"},
			{lock(holdfast.NewTree(c, "/a/").Path("")), `holdfast: try lock /a/: invalid path "/a/": it ends with /`},
			{lock(holdfast.NewMultiLock(holdfast.NewMutex(c, ""))), "holdfast: try lock: invalid path: it is empty"},
			{lock(holdfast.NewMutex(c, strings.Repeat("/a", 129))), "it has 129 parts, and the path of a lock has at most 128"},
			{do(once.New(c, "")), "holdfast: do: invalid path: it is empty"},
			{shards.New(c, "", 2).Run(ctx, nil), "holdfast: run shards: invalid path: it is empty"},
			{lock(holdfast.NewMultiLock()), "holdfast: try lock: bad arguments: a MultiLock needs at least one lock"},
			{lock(holdfast.NewMultiLock(nil)), "a MultiLock got a nil Locker"},
			{lock(holdfast.NewMultiLock(reserve.Locker(holdfast.NewMutex(c, path)))), "wrap the whole MultiLock instead"},
			{lock(holdfast.NewMultiLock(ownLocker{})), "it takes the locks of package holdfast"},
			{lock(holdfast.NewMultiLock(holdfast.NewMutex(c, path+"/a"), holdfast.NewTree(c, path).Path("b"))), path + "/a is in the Tree " + path + ", which refuses other locks at its path and below: take it as a path of that Tree"},
			{lock(holdfast.NewMultiLock(holdfast.NewTree(c, path).Path("b"), holdfast.NewTree(c, path+"/a").Path(""))), "is in the Tree " + path},
			{lock(holdfast.NewMutex(c, path, holdfast.WithLayout(holdfast.Layout{}))), "invalid layout: it has no Mutex: fill in Mutex"},
			{lock(holdfast.NewRWMutex(c, path, holdfast.WithLayout(layout.WriteLock)).RLocker()), "invalid layout writelock: it has no read side: curator, kazoo and hostrw have one"},
			{lock(holdfast.NewSemaphore(c, path, 2, holdfast.WithLayout(layout.WriteLock)).Locker(1)), "it has no semaphore: curator and kazoo have one"},
			{lock(holdfast.NewSemaphore(c, path, 0).Locker(1)), "none is stored, and this caller claims none: claim one, or store one with SetLimit"},
			{lock(holdfast.NewSemaphore(c, path, -1).Locker(1)), "the claim is -1: want 1 or more"},
			{lock(holdfast.NewSemaphore(c, path, 2).Locker(0)), "0 permits asked for: want 1 or more"},
			{holdfast.NewSemaphore(c, path, 2).SetLimit(ctx, 0), "semaphore limit: 0: want 1 or more"},
			{run(0), "number of shards: 0: want 1 to 65536"},
			{run(2, shards.WithWeight(1<<20+1)), "WithWeight(1048577): want 0 to 1048576"},
			{run(2, shards.WithSettle(-1)), "holdfast: run shards " + path + ": bad arguments: WithSettle(-1ns) is negative"},
		} {
			if tt.err == nil || !strings.Contains(tt.err.Error(), tt.says) {
				t.Errorf("%v; want %q in it", tt.err, tt.says)
			}
			if text := fmt.Sprint(tt.err); internal.MatchString(text) || strings.Count(text, "holdfast: ") > 1 {
				t.Errorf("%v; want no word of the sources, and one beginning", text)
			}
		}
	})
}

// internal finds types that are not exported, and holes where a text is missing.
var internal = regexp.MustCompile(`\b(holdfast|queue|names|zk)\.[a-z]| :|  |<nil>|%!`)
