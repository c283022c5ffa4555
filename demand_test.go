package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// chrooted returns a client of srv with another root.
func chrooted(t *testing.T, srv *zktest.Server) *zk.Client {
	t.Helper()
	cfg := srv.Config()
	cfg.Chroot, cfg.CreateChroot = "/app", true
	c, err := zk.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// countWrites counts the requests of all clients that may change something, apart from proofs of sessions.
func countWrites(srv *zktest.Server) *atomic.Int64 {
	var n atomic.Int64
	for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpMulti, zkproto.OpDelete, zkproto.OpSetData} {
		srv.Intercept(op, func(string) zktest.Action {
			n.Add(1)
			return zktest.Pass
		})
	}
	return &n
}

// A function that is given a Hold of the wrong sort refuses it, says what to give, and sends nothing that changes a
// node. Otherwise two callers would run one job, or somebody else's node would be overwritten.
func TestFunctionsRefuseTheWrongHold(t *testing.T) {
	holds := map[string]func(t *testing.T, srv *zktest.Server, c *zk.Client) *holdfast.Hold{
		"mutex": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithOwner("ada")))
		},
		"mutex with a value": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithValue([]byte("mine"))))
		},
		"writer": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewRWMutex(c, lockPath))
		},
		"reader": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewRWMutex(c, lockPath).RLocker())
		},
		"reader under a writer": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			m := holdfast.NewRWMutex(c, lockPath)
			h, err := m.RLock(lock(t, m).Context())
			if err != nil {
				t.Fatal(err)
			}
			return h
		},
		"permit": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewSemaphore(c, lockPath, 2).Locker(1))
		},
		"the only permit": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewSemaphore(c, lockPath, 1).Locker(1))
		},
		"slot": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewSlots(c, lockPath, 2).Locker())
		},
		"node lock": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewNodeLock(c, lockPath))
		},
		"several": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewMultiLock(holdfast.NewMutex(c, lockPath), holdfast.NewMutex(c, lockPath+"2")))
		},
		"tree": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewTree(c, lockPath).Path("a"))
		},
		"kept": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold { return lock(t, keeper(c)) },
		"handed on": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, inMemory(c, 3))
		},
		"joined": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			m := holdfast.NewMutex(c, lockPath, holdfast.Reentrant())
			h, err := m.Lock(lock(t, m).Context())
			if err != nil {
				t.Fatal(err)
			}
			return h
		},
		"other client": func(t *testing.T, srv *zktest.Server, _ *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		},
		"other root": func(t *testing.T, srv *zktest.Server, _ *zk.Client) *holdfast.Hold {
			return lock(t, holdfast.NewMutex(chrooted(t, srv), lockPath))
		},
		"term": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, candidate{holdfast.NewElection(c, lockPath), "a"})
		},
		"term of another client": func(t *testing.T, srv *zktest.Server, _ *zk.Client) *holdfast.Hold {
			return lock(t, candidate{holdfast.NewElection(client(t, srv), lockPath), "a"})
		},
		"term of another election": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, candidate{holdfast.NewElection(c, lockPath+"2"), "a"})
		},
		"term in another layout": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			return lock(t, candidate{holdfast.NewElection(c, lockPath, holdfast.WithLayout(layout.LeaderLatch)), "a"})
		},
		"none": func(*testing.T, *zktest.Server, *zk.Client) *holdfast.Hold { return nil },
		"zero": func(*testing.T, *zktest.Server, *zk.Client) *holdfast.Hold { return new(holdfast.Hold) },
		"unlocked": func(t *testing.T, _ *zktest.Server, c *zk.Client) *holdfast.Hold {
			h := lock(t, candidate{holdfast.NewElection(c, lockPath), "a"})
			unlock(t, h)
			return h
		},
		"lost": func(t *testing.T, srv *zktest.Server, c *zk.Client) *holdfast.Hold {
			h := lock(t, candidate{holdfast.NewElection(c, lockPath), "a"})
			srv.Expire(h.SessionID())
			<-h.Lost()
			return h
		},
	}
	functions := map[string]struct {
		call  func(ctx context.Context, c *zk.Client, h *holdfast.Hold) error
		takes string // the names of the holds that it takes
		no    string // and of those that it cannot be called with
	}{
		"Turn": {func(ctx context.Context, c *zk.Client, h *holdfast.Hold) error {
			_, _, err := once.New(c, lockPath+"/.holdfast").Key("k").Turn(ctx, h)
			return err
		}, "mutex, mutex with a value, writer, node lock, term, term of another election, term in another layout", ""},
		"TurnWithin": {func(ctx context.Context, c *zk.Client, h *holdfast.Hold) error {
			_, _, err := once.New(c, lockPath+"/.holdfast").Every(time.Hour).Turn(ctx, h)
			return err
		}, "mutex, mutex with a value, writer, node lock, term, term of another election, term in another layout", ""},
		"Proclaim": {func(ctx context.Context, c *zk.Client, h *holdfast.Hold) error {
			return holdfast.NewElection(c, lockPath).Proclaim(ctx, h, []byte("10.0.0.5:80"))
		}, "term", ""},
		"Reserve": {func(ctx context.Context, _ *zk.Client, h *holdfast.Hold) error {
			return reserve.For(ctx, h, time.Minute)
		},
			"mutex, mutex with a value, writer, several, joined, other client, other root, term, term of another client, term of another election, term in another layout", ""},
		"Unreserve": {func(ctx context.Context, _ *zk.Client, h *holdfast.Hold) error { return reserve.Cancel(ctx, h) },
			"mutex, mutex with a value, writer, several, joined, other client, other root, term, term of another client, term of another election, term in another layout", ""},
	}
	has := func(list, name string) bool { return strings.Contains(", "+list+", ", ", "+name+", ") }
	for function, f := range functions {
		for name, make := range holds {
			if has(f.no, name) {
				continue
			}
			t.Run(function+"/"+name, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					h := make(t, srv, c)
					writes := countWrites(srv)
					err := f.call(t.Context(), c, h)
					var failed *holdfast.Error
					switch {
					case has(f.takes, name):
						if err != nil {
							t.Fatal(err)
						}
						return
					case !errors.As(err, &failed):
						t.Fatalf("%v; want a *holdfast.Error", err)
					case name == "unlocked":
						wantErr(t, err, holdfast.ErrNotHeld)
					case name == "lost":
						wantErr(t, err, holdfast.ErrLost)
					default:
						wantErr(t, err, zk.ErrBadArguments)
						if !strings.Contains(err.Error(), ": give ") && !strings.Contains(err.Error(), ": make ") &&
							!strings.Contains(err.Error(), ": lock ") && !strings.Contains(err.Error(), ": unlock ") {
							t.Errorf("%v does not say what to do", err)
						}
					}
					if n := writes.Load(); n != 0 {
						t.Errorf("%d requests that write", n)
					}
				})
			})
		}
	}
}
