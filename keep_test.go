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
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// keepIdle is how long these tests keep an idle lock.
const keepIdle = time.Minute

// keeper is a Mutex whose lock the client keeps.
func keeper(c *zk.Client, opts ...holdfast.Option) *holdfast.Mutex {
	return holdfast.NewMutex(c, lockPath, append(opts, holdfast.WithKeep(keepIdle))...)
}

// keepLock locks and unlocks m, and checks that the lock is kept.
func keepLock(t *testing.T, m holdfast.Locker) (token int64) {
	t.Helper()
	h := lock(t, m)
	unlock(t, h)
	return h.Token()
}

// wantKept checks that the queue has one node, and whether List says that it is kept.
func wantKept(t *testing.T, c *zk.Client, want bool) holdfast.Entry {
	t.Helper()
	synctest.Wait()
	entries, err := holdfast.List(t.Context(), c, lockPath)
	if err != nil || len(entries) != 1 || !entries[0].Held || entries[0].Kept != want {
		t.Fatalf("List returns %+v, %v; want one holder, kept: %v", entries, err, want)
	}
	return entries[0]
}

// The next Lock and TryLock of the client take a kept lock without a request. When nobody has taken it for its time,
// it is given up.
func TestKeptLockNeedsNoRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		line := newLine(t, srv)
		c := client(t, srv)
		m := keeper(line.Client, holdfast.WithOwner("ada"))
		first := lock(t, m)
		unlock(t, first)
		if e := wantKept(t, c, true); e.Owner != "ada" || e.Token != first.Token() || !e.HeldSince.IsZero() {
			t.Errorf("List returns %+v", e)
		}
		time.Sleep(20 * time.Millisecond) // until the node is watched
		synctest.Wait()
		requests := line.requests.Load()
		for i := range 100 {
			take := m.Lock
			if i%2 == 1 {
				take = m.TryLock
			}
			h, err := take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if h.Token() != first.Token() || h.Path() != first.Path() || h.Err() != nil {
				t.Fatalf("turn %d: %s, token %d, %v", i, h.Path(), h.Token(), h.Err())
			}
			unlock(t, h)
			wantErr(t, h.Err(), holdfast.ErrNotHeld)
		}
		if n := line.requests.Load() - requests; n != 0 {
			t.Errorf("%d requests for 100 turns of a kept lock; want none", n)
		}
		time.Sleep(keepIdle - time.Millisecond)
		wantKept(t, c, true)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		wantQueued(t, c, 0)
		if h := lock(t, m); h.Token() <= first.Token() {
			t.Error("a lock that was given up has its old token")
		}
	})
}

// Every client that joins the queue gets a kept lock at once, also one that knows nothing of kept locks.
func TestWhoeverJoinsGetsAKeptLock(t *testing.T) {
	for name, join := range map[string]func(c, other *zk.Client) holdfast.Locker{
		"another client": func(_, o *zk.Client) holdfast.Locker { return holdfast.NewMutex(o, lockPath) },
		"another keeper": func(_, o *zk.Client) holdfast.Locker { return keeper(o) },
		"a reader":       func(_, o *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(o, lockPath).RLocker() },
		"a writer":       func(_, o *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(o, lockPath) },
		"a MultiLock": func(_, o *zk.Client) holdfast.Locker {
			return holdfast.NewMultiLock(holdfast.NewMutex(o, lockPath), holdfast.NewMutex(o, lockPath+"2"))
		},
		"the client, without keep": func(c, _ *zk.Client) holdfast.Locker { return holdfast.NewMutex(c, lockPath) },
		"the client, as a reader": func(c, _ *zk.Client) holdfast.Locker {
			return holdfast.NewRWMutex(c, lockPath, holdfast.WithKeep(keepIdle)).RLocker()
		},
		"the client, as an RWMutex": func(c, _ *zk.Client) holdfast.Locker {
			return holdfast.NewRWMutex(c, lockPath, holdfast.WithKeep(keepIdle))
		},
		"a recipe that has no notes": func(_, o *zk.Client) holdfast.Locker { return recipe{o} },
	} {
		for _, try := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, try %v", name, try), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c, other := client(t, srv), client(t, srv)
					m := keeper(c)
					token := keepLock(t, m)
					began := time.Now()
					l := join(c, other)
					take := l.Lock
					if try {
						take = l.TryLock
					}
					h, err := take(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if took := time.Since(began); took > 50*time.Millisecond {
						t.Errorf("a kept lock took %v", took)
					}
					if h != nil {
						if h.Token() <= token {
							t.Errorf("token %d after %d", h.Token(), token)
						}
						again := wait(t.Context(), m)
						if !again.waiting() {
							t.Fatal("two hold the lock")
						}
						unlock(t, h)
						unlock(t, again.got(t))
						wantKept(t, other, true)
					}
				})
			})
		}
	}
}

// A recipe is ZooKeeper's own: it watches the node ahead, and reads no data.
type recipe struct{ c *zk.Client }

func (r recipe) Lock(ctx context.Context) (*holdfast.Hold, error) {
	mine, _, err := r.c.Create(ctx, lockPath+"/_c_00000000-0000-0000-0000-000000000000-lock-", nil, zk.EphemeralSequential)
	if err != nil {
		return nil, err
	}
	for {
		names, _, err := r.c.Children(ctx, lockPath)
		if err != nil {
			return nil, err
		}
		number := func(name string) string { return name[len(name)-10:] }
		slices.SortFunc(names, func(a, b string) int { return strings.Compare(number(a), number(b)) })
		if lockPath+"/"+names[0] == mine {
			return nil, nil
		}
		if _, ok, watch, err := r.c.ExistsW(ctx, lockPath+"/"+names[0]); err != nil {
			return nil, err
		} else if ok {
			select {
			case <-watch.C:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

func (r recipe) TryLock(ctx context.Context) (*holdfast.Hold, error) { return r.Lock(ctx) }

// Somebody joins while the client holds the lock, for the first time or again: the lock goes back at Unlock.
func TestHeldLockIsNotKeptFromWaiters(t *testing.T) {
	for _, again := range []bool{false, true} {
		for _, long := range []bool{false, true} { // a short tenure does not watch its node
			t.Run(fmt.Sprintf("again %v, long %v", again, long), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					m := keeper(c)
					if again {
						keepLock(t, m)
					}
					h := lock(t, m)
					if long {
						time.Sleep(3 * time.Second)
					}
					stranger := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
					if !stranger.waiting() {
						t.Fatal("two hold the lock")
					}
					local := wait(t.Context(), m)
					began := time.Now()
					unlock(t, h)
					if !local.waiting() {
						t.Fatal("a local caller overtook the stranger")
					}
					s := stranger.got(t)
					if took := time.Since(began); took > 50*time.Millisecond {
						t.Errorf("the stranger got the lock after %v", took)
					}
					unlock(t, s)
					unlock(t, local.got(t))
					wantKept(t, c, true)
				})
			})
		}
	}
}

// TryLock of another client waits for one handoff of a kept lock, and for nothing else.
func TestTryLockOfALockThatIsKept(t *testing.T) {
	try := func(t *testing.T, c *zk.Client) (*holdfast.Hold, time.Duration, error) {
		t.Helper()
		began := time.Now()
		h, err := holdfast.NewMutex(c, lockPath).TryLock(t.Context())
		return h, time.Since(began), err
	}
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := client(t, srv), client(t, srv)
		m := keeper(c)
		keepLock(t, m)
		h := lock(t, m) // the mark is still there
		_, took, err := try(t, other)
		wantErr(t, err, holdfast.ErrLocked)
		if took > 2*holdfast.GracePeriod {
			t.Errorf("TryLock took %v", took)
		}
		wantKept(t, other, false)
		unlock(t, h) // somebody has joined, so it is not kept
		wantQueued(t, other, 0)

		keepLock(t, m)
		waits := wait(t.Context(), keeper(other, holdfast.WithOwner("other")))
		unlock(t, waits.got(t))
		wantKept(t, c, true)
		_, err = m.TryLock(t.Context()) // through the local queue of c, which is empty
		if err != nil {
			t.Error(err)
		}
	})
	// The client that keeps the lock does not hear of us.
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		line, other := newLine(t, srv), client(t, srv)
		keepLock(t, keeper(line.Client))
		line.stay()
		line.cut()
		_, took, err := try(t, other)
		wantErr(t, err, holdfast.ErrLocked)
		if took < time.Second || took > time.Second+50*time.Millisecond {
			t.Errorf("TryLock took %v; want a second", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = holdfast.NewMutex(other, lockPath).TryLock(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		h := lock(t, holdfast.NewMutex(other, lockPath)) // when the session has ended
		unlock(t, h)
	})
	// Somebody else is ahead, too.
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := client(t, srv), client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		wait(t.Context(), holdfast.NewMutex(c, lockPath))
		_, _, err := try(t, other)
		wantErr(t, err, holdfast.ErrLocked)
		unlock(t, h)
	})
	// The data are the program's own, and have no mark.
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := client(t, srv), client(t, srv)
		keepLock(t, keeper(c, holdfast.WithValue([]byte("mine"))))
		wantKept(t, other, false)
		if h, _, err := try(t, other); err == nil { // the keeper was quick
			unlock(t, h)
		} else {
			wantErr(t, err, holdfast.ErrLocked)
		}
		synctest.Wait()
		wantQueued(t, other, 0) // the keeper has heard of us in any case
	})
}

// A kept lock is gone when its node is, or its session. The next Lock joins the queue.
func TestKeptLockIsLost(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, srv *zktest.Server, keeps *line, other *zk.Client, h *holdfast.Hold){
		"revoked": func(t *testing.T, _ *zktest.Server, _ *line, other *zk.Client, h *holdfast.Hold) {
			if err := holdfast.Revoke(t.Context(), other, lockPath, h.Token()); err != nil {
				t.Error(err)
			}
		},
		"revoked as Curator does": func(t *testing.T, _ *zktest.Server, _ *line, other *zk.Client, h *holdfast.Hold) {
			if _, err := other.Set(t.Context(), h.Path(), []byte("__REVOKE__"), zk.AnyVersion); err != nil {
				t.Error(err)
			}
		},
		"broken": func(t *testing.T, _ *zktest.Server, _ *line, other *zk.Client, h *holdfast.Hold) {
			if err := holdfast.Break(t.Context(), other, lockPath, h.Token()); err != nil {
				t.Error(err)
			}
		},
		"directory removed": func(t *testing.T, _ *zktest.Server, _ *line, other *zk.Client, h *holdfast.Hold) {
			if _, err := other.Multi(t.Context(), zk.DeleteOp(h.Path(), zk.AnyVersion), zk.DeleteOp(lockPath, zk.AnyVersion)); err != nil {
				t.Error(err)
			}
		},
		"session expired": func(_ *testing.T, srv *zktest.Server, _ *line, _ *zk.Client, h *holdfast.Hold) {
			srv.Expire(h.SessionID())
		},
		"cut off for longer than the session": func(_ *testing.T, _ *zktest.Server, keeps *line, _ *zk.Client, _ *holdfast.Hold) {
			keeps.stay()
			keeps.cut()
			time.Sleep(2 * sessionTimeout)
			keeps.mend()
		},
		"somebody joined while it was cut off": func(t *testing.T, _ *zktest.Server, keeps *line, other *zk.Client, _ *holdfast.Hold) {
			keeps.stay()
			keeps.cut()
			w := wait(t.Context(), holdfast.NewMutex(other, lockPath))
			if !w.waiting() {
				t.Error("two hold the lock")
			}
			keeps.mend()
			unlock(t, w.got(t))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				line, other := newLine(t, srv), client(t, srv)
				m := keeper(line.Client)
				h := lock(t, m)
				unlock(t, h)
				time.Sleep(20 * time.Millisecond) // until the node is watched
				synctest.Wait()
				end(t, srv, line, other, h)
				synctest.Wait()
				wantQueued(t, other, 0)
				next := lock(t, m)
				if next.Token() <= h.Token() {
					t.Error("the lock has an old token")
				}
				unlock(t, next)
				wantKept(t, other, true)
			})
		})
	}
}

// The connection breaks and comes back. The lock is still kept, and whoever joins later gets it.
func TestKeptLockOutlivesAConnection(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		line, other := newLine(t, srv), client(t, srv)
		m := keeper(line.Client)
		token := keepLock(t, m)
		for range 3 {
			line.cut()
			time.Sleep(time.Second)
			synctest.Wait()
			if h := lock(t, m); h.Token() != token {
				t.Error("the lock was not kept")
			} else {
				unlock(t, h)
			}
		}
		unlock(t, lock(t, holdfast.NewMutex(other, lockPath)))
	})
}

// A kept lock is not taken while the session is not proven, although the node may still be there.
func TestKeptLockIsNotTakenWithoutAProof(t *testing.T) {
	// The end of the proof also ends the session. Which of the two the caller meets first is chance.
	for range 20 {
		keptUntilTheProofEnds(t)
	}
}

func keptUntilTheProofEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		line := newLine(t, srv)
		m := keeper(line.Client)
		h := lock(t, m)
		unlock(t, h)
		line.stay()
		line.cut()
		for until := h.Deadline(); !time.Now().After(until.Add(time.Second)); time.Sleep(50 * time.Millisecond) {
			proven := time.Now().Before(h.Deadline())
			next, err := m.TryLock(func() context.Context {
				ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
				t.Cleanup(cancel)
				return ctx
			}())
			switch {
			case err == nil && !proven:
				t.Fatal("a lock is taken that is not proven to be ours")
			case err == nil:
				unlock(t, next)
			case proven:
				t.Fatalf("%v; want the kept lock", err)
			}
		}
		line.mend()
	})
}

// Close ends the session, and with it all that is kept.
func TestCloseGivesUpWhatIsKept(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := client(t, srv), client(t, srv)
		keepLock(t, keeper(c))
		c.Close()
		synctest.Wait()
		wantQueued(t, other, 0)
	})
}

// A client keeps a bounded number of locks, and gives up the one that is idle for the longest time.
func TestKeptLocksAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		of := func(i int) *holdfast.Mutex {
			return holdfast.NewMutex(c, fmt.Sprintf("%s/%d", lockPath, i), holdfast.WithKeep(keepIdle))
		}
		stands := func(i int) bool {
			synctest.Wait()
			e, err := holdfast.List(t.Context(), c, fmt.Sprintf("%s/%d", lockPath, i))
			if err != nil {
				t.Fatal(err)
			}
			return len(e) == 1
		}
		for i := range 64 {
			unlock(t, lock(t, of(i)))
		}
		unlock(t, lock(t, of(0))) // 1 is now the oldest
		held := lock(t, of(2))
		for i := 64; i < 66; i++ {
			unlock(t, lock(t, of(i)))
		}
		if !stands(0) || stands(1) || !stands(2) || !stands(3) || !stands(65) {
			t.Error("want all but 1")
		}
		unlock(t, held)
		if stands(3) || !stands(4) || !stands(2) {
			t.Error("want 3 to go next")
		}
	})
}

// While nobody else waits, goroutines of the client hand the lock on without a bound. Once somebody waits, the bound
// of WithLocalHandoff counts.
func TestKeptLockIsHandedOn(t *testing.T) {
	for _, n := range []int{0, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				m := keeper(c, holdfast.WithLocalHandoff(n))
				h := lock(t, m)
				token := h.Token()
				var line []*waiter
				for range 30 {
					line = append(line, wait(t.Context(), m))
				}
				for _, w := range line[:20] {
					unlock(t, h)
					if h = w.got(t); h.Token() != token {
						t.Fatal("a lock that nobody else wants went back")
					}
				}
				stranger := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
				turns := 0
				for stranger.waiting() {
					unlock(t, h)
					if !stranger.waiting() {
						break
					}
					h = line[20+turns].got(t)
					if turns++; turns > n {
						t.Fatalf("the lock was handed on %d times; want at most %d", turns, n)
					}
				}
				unlock(t, stranger.got(t))
				for _, w := range line[20+turns:] {
					unlock(t, w.got(t))
				}
				wantKept(t, c, true)
			})
		})
	}
}

// The mark of a kept lock goes when a Hold has taken the lock for a second, and comes back with Unlock. List then
// says since when the lock is held.
func TestMarkFollowsTheHold(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := client(t, srv), client(t, srv)
		m := keeper(c, holdfast.WithOwner("ada"))
		keepLock(t, m)
		time.Sleep(10 * time.Second)
		wantKept(t, other, true)
		for range 3 {
			began := time.Now()
			h := lock(t, m)
			time.Sleep(1500 * time.Millisecond)
			if e := wantKept(t, other, false); e.HeldSince.Sub(began).Abs() > 100*time.Millisecond || e.Owner != "ada" {
				t.Errorf("List returns %+v; want a holder since %v", e, began)
			}
			unlock(t, h)
			if e := wantKept(t, other, true); !e.HeldSince.IsZero() || e.Owner != "ada" {
				t.Errorf("List returns %+v", e)
			}
		}
	})
}

// A request to release the lock that comes while the mark is written is not lost.
func TestRevokeBesideTheMark(t *testing.T) {
	for name, data := range map[string]string{"ours": `{"revoke":true}`, "Curator's": "__REVOKE__"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c, other := client(t, srv), client(t, srv)
				var once sync.Once
				h := lock(t, keeper(c))
				srv.Intercept(zkproto.OpSetData, func(path string) zktest.Action {
					once.Do(func() {
						if _, err := other.Multi(context.Background(), zk.SetOp(path, []byte(data), zk.AnyVersion)); err != nil {
							t.Error(err)
						}
					})
					return zktest.Pass
				})
				unlock(t, h)
				synctest.Wait()
				wantQueued(t, other, 0)
			})
		})
	}
}

// However the last Hold of a tenure ends, the lock is kept.
func TestEndingsOfALockThatIsKept(t *testing.T) {
	for name, turn := range map[string]func(t *testing.T, c *zk.Client){
		"Do": func(t *testing.T, c *zk.Client) {
			if err := holdfast.Do(t.Context(), keeper(c), func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
		},
		"Release": func(t *testing.T, c *zk.Client) {
			if err := lock(t, keeper(c)).Release(); err != nil {
				t.Error(err)
			}
		},
		"CommitAndUnlock": func(t *testing.T, c *zk.Client) {
			if _, err := lock(t, keeper(c)).CommitAndUnlock(t.Context(), zk.CreateOp("/data", nil, zk.Ephemeral)); err != nil {
				t.Error(err)
			}
			if err := c.Delete(t.Context(), "/data", zk.AnyVersion); err != nil {
				t.Error(err)
			}
		},
		"TryLock": func(t *testing.T, c *zk.Client) {
			h, err := keeper(c).TryLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_, err = keeper(c).TryLock(t.Context())
			wantErr(t, err, holdfast.ErrLocked)
			w := wait(t.Context(), keeper(c))
			unlock(t, h)
			unlock(t, w.got(t))
		},
		"Reentrant": func(t *testing.T, c *zk.Client) {
			m := keeper(c, holdfast.Reentrant())
			outer := lock(t, m)
			inner, err := m.Lock(outer.Context())
			if err != nil {
				t.Fatal(err)
			}
			unlock(t, outer)
			next := wait(t.Context(), m)
			if !next.waiting() {
				t.Error("two hold the lock")
			}
			unlock(t, inner)
			unlock(t, next.got(t))
		},
		"deadlock": func(t *testing.T, c *zk.Client) {
			h := lock(t, keeper(c))
			_, err := keeper(c).Lock(h.Context())
			wantErr(t, err, holdfast.ErrDeadlock)
			_, err = keeper(c).TryLock(h.Context())
			wantErr(t, err, holdfast.ErrDeadlock)
			unlock(t, h)
		},
		"MultiLock": func(t *testing.T, c *zk.Client) {
			m := holdfast.NewMultiLock(keeper(c), holdfast.NewMutex(c, lockPath+"2"))
			token := tokenOf(lockAndUnlock(t, m), lockPath)
			if tokenOf(lockAndUnlock(t, m), lockPath) != token {
				t.Error("the part was not kept")
			}
		},
		"writer": func(t *testing.T, c *zk.Client) {
			keepLock(t, holdfast.NewRWMutex(c, lockPath, holdfast.WithKeep(keepIdle)))
		},
		"downgrade": func(t *testing.T, c *zk.Client) {
			m := holdfast.NewRWMutex(c, lockPath, holdfast.WithKeep(keepIdle))
			keepLock(t, m)
			w := lock(t, m)
			r, err := m.RLock(w.Context())
			if err != nil {
				t.Fatal(err)
			}
			next := wait(t.Context(), m)
			unlock(t, w)
			if !next.waiting() {
				t.Error("a reader and a writer hold the lock")
			}
			unlock(t, r)
			unlock(t, next.got(t))
		},
		"the caller gives up": func(t *testing.T, c *zk.Client) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			keepLock(t, keeper(c))
			_, err := keeper(c).Lock(ctx)
			wantErr(t, err, context.Canceled)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				turn(t, c)
				wantKept(t, client(t, srv), true)
				time.Sleep(keepIdle)
				synctest.Wait()
				wantQueued(t, c, 0)
			})
		})
	}
}

func lockAndUnlock(t *testing.T, l holdfast.Locker) *holdfast.Hold {
	t.Helper()
	h := lock(t, l)
	unlock(t, h)
	return h
}

// The lock's time ends in the moment in which Lock, or TryLock, comes. The caller gets it in any case, from this
// node or from the next.
func TestLockAtTheEndOfTheTime(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		idle := time.Second
		m := holdfast.NewMutex(c, lockPath, holdfast.WithKeep(idle))
		tokens := map[int64]bool{}
		for i := range 300 {
			take := m.Lock
			if i%2 == 0 {
				take = m.TryLock
			}
			h, err := take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tokens[h.Token()] = true
			unlock(t, h)
			time.Sleep(idle)
		}
		t.Logf("%d nodes for 300 turns", len(tokens))
	})
}

// The client does not know yet whether somebody else waits. Until it does, the next local caller waits. The stranger was
// first, so it comes first.
func TestLockWaitsUntilItIsKnownWhoElseWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := client(t, srv), client(t, srv)
		unlock(t, lock(t, holdfast.NewMutex(other, lockPath))) // makes the directory
		reached, proceed := make(chan struct{}), make(chan struct{})
		lists := 0
		srv.Intercept(zkproto.OpGetChildren2, func(string) zktest.Action {
			if lists++; lists == 2 { // the first is that of the join
				close(reached)
				<-proceed
			}
			return zktest.Pass
		})
		m := keeper(c)
		h := lock(t, m)
		<-reached
		stranger := wait(t.Context(), holdfast.NewMutex(other, lockPath))
		released := make(chan struct{})
		go func() {
			defer close(released)
			unlock(t, h)
		}()
		synctest.Wait()
		local := wait(t.Context(), m)
		if !local.waiting() {
			t.Error("a local caller overtook the stranger")
		}
		close(proceed)
		<-released
		unlock(t, stranger.got(t))
		unlock(t, local.got(t))
	})
}

// Clients with many goroutines each, which keep the lock or do not: one holder at a time, and tokens never
// decrease.
func TestKeptLocksExclude(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var wg sync.WaitGroup
		var holders atomic.Int32
		var token, turns int64
		for i := range 4 {
			c := client(t, srv)
			m := keeper(c, holdfast.WithLocalHandoff(i))
			if i == 3 {
				m = holdfast.NewMutex(c, lockPath)
			}
			for g := range 3 {
				wg.Go(func() {
					for turn := range 40 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(turn%7+1)*20*time.Millisecond)
						take := m.Lock
						if (turn+g)%3 == 0 {
							take = m.TryLock
						}
						h, err := take(ctx)
						cancel()
						if err == nil {
							if holders.Add(1) != 1 {
								t.Error("two hold the lock")
							}
							if h.Token() < token {
								t.Errorf("token %d after %d; want it not to decrease", h.Token(), token)
							}
							token = h.Token()
							turns++
							time.Sleep(time.Duration(turn%3) * time.Millisecond)
							holders.Add(-1)
							unlock(t, h)
						}
						time.Sleep(time.Duration((turn*7+g*3+i)%11) * time.Millisecond)
					}
				})
			}
		}
		wg.Wait()
		if turns < 100 {
			t.Errorf("%d turns", turns)
		}
		time.Sleep(2 * keepIdle)
		synctest.Wait()
		wantQueued(t, client(t, srv), 0)
	})
}

// The next caller has the lock already while Unlock of the one before still writes the mark. If the lock is lost
// then, Unlock does not wait for that caller.
func TestUnlockDoesNotWaitForTheNextHold(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := keeper(client(t, srv))
		h := lock(t, m)
		synctest.Wait() // the client knows that nobody else waits
		resume := srv.Stall()
		unlocked := make(chan error, 1)
		go func() { unlocked <- h.Unlock() }()
		synctest.Wait()
		next := lock(t, m)
		<-next.Lost()
		synctest.Wait()
		select {
		case err := <-unlocked:
			if err != nil {
				t.Error(err)
			}
		default:
			t.Error("Unlock waits for the next Hold")
		}
		wantErr(t, next.Unlock(), holdfast.ErrLost)
		resume()
	})
}

func TestTryLockOfACallerThatHasGivenUpTakesNoKeptLock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := keeper(client(t, srv))
		keepLock(t, m)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := m.TryLock(ctx)
		wantErr(t, err, context.Canceled)
	})
}

// TryLock of a lock whose nodes it may not read says the same as before there were kept locks.
func TestTryLockBehindANodeThatItMayNotRead(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := client(t, srv), client(t, srv)
		acl := holdfast.WithACL(zk.ACL{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"})
		if _, _, err := c.Create(t.Context(), "/unread", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		h := lock(t, holdfast.NewMutex(c, "/unread", acl))
		_, err := holdfast.NewMutex(other, "/unread").TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		unlock(t, h)
	})
}

// A client that keeps the lock may no longer read the queue, and no event tells it that another has joined. It gives the lock
// up all the same, also while its own callers take it again and again.
func TestKeeperOfAHiddenQueueLooksAgain(t *testing.T) {
	for _, busy := range []bool{false, true} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			admin, c, other := client(t, srv), client(t, srv), client(t, srv)
			m := holdfast.NewMutex(c, lockPath, holdfast.WithKeep(10*longestLook))
			unlock(t, lock(t, m))
			wantKept(t, admin, true)
			hide(t, admin, lockPath)
			if _, _, err := other.Create(t.Context(), lockPath+"/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", nil, zk.EphemeralSequential); err != nil {
				t.Fatal(err)
			}
			for begun := time.Now(); ; time.Sleep(time.Second) {
				nodes, err := c.Ephemerals(t.Context(), "/")
				if err != nil {
					t.Fatal(err)
				}
				if len(nodes) == 0 {
					return
				}
				if time.Since(begun) > longestLook {
					t.Fatalf("busy %v: the lock is kept, and another is in the queue", busy)
				}
				if busy {
					h, err := m.TryLock(t.Context())
					if err == nil {
						unlock(t, h)
					}
				}
			}
		})
	}
}
