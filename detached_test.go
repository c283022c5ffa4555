package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
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
	"holdfast/zkserver"
	"holdfast/zktest"
)

func detached(c *zk.Client, expires time.Duration, opts ...holdfast.Option) *holdfast.Detached {
	return holdfast.NewDetached(c, lockPath, expires, opts...)
}

func claim(t *testing.T, d *holdfast.Detached) holdfast.Claim {
	t.Helper()
	c, err := d.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// claimer is a Lock of a Detached in a goroutine.
type claimer struct {
	done  chan struct{}
	claim holdfast.Claim
	err   error
}

func waitDetached(ctx context.Context, d *holdfast.Detached) *claimer {
	w := &claimer{done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.claim, w.err = d.Lock(ctx)
	}()
	synctest.Wait()
	return w
}

// nodesOf returns the numbers of ephemeral and of persistent nodes in the lock's directory.
func nodesOf(t *testing.T, c *zk.Client) (ephemeral, persistent int) {
	t.Helper()
	for _, name := range queued(t, c) {
		stat, ok, err := c.Exists(t.Context(), lockPath+"/"+name)
		switch {
		case err != nil:
			t.Fatal(err)
		case !ok:
		case stat.EphemeralOwner != 0:
			ephemeral++
		default:
			persistent++
		}
	}
	return ephemeral, persistent
}

// A waiter becomes a holder without a session at its own place: nobody behind it passes, next in line or later,
// reader or writer, in every layout that has such locks. The lock outlives its maker's session.
func TestDetachedKeepsItsPlaceInTheQueue(t *testing.T) {
	for _, layout := range []holdfast.Layout{layout.Curator, layout.Kazoo, layout.GoZookeeper, layout.LeaderLatch, {
		Name: "own", Mutex: "{uuid}-job-", Exclusive: []string{"*-job-"},
	}} {
		t.Run(layout.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				with := holdfast.WithLayout(layout)
				mutex := func() holdfast.Locker { return holdfast.NewMutex(client(t, srv), lockPath, with) }
				before := lock(t, mutex())
				maker := client(t, srv)
				d := waitDetached(t.Context(), detached(maker, 0, with))
				behind := []*waiter{wait(t.Context(), mutex()), wait(t.Context(), mutex()), wait(t.Context(), mutex())}
				if layout.Read != "" {
					behind = append(behind, wait(t.Context(), rw(t, srv, with).RLocker()))
				}
				change := make(chan struct{})
				srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
					<-change
					return zktest.Pass
				})
				unlock(t, before)
				time.Sleep(time.Second) // those behind have looked: only the waiter is ahead of the first of them
				close(change)
				<-d.done
				if d.err != nil {
					t.Fatal(d.err)
				}
				maker.Close()
				time.Sleep(10 * sessionTimeout)
				for i, w := range behind {
					if !w.waiting() {
						t.Fatalf("waiter %d passed the lock of a process that has ended", i)
					}
				}
				_, err := mutex().TryLock(t.Context())
				wantErr(t, err, holdfast.ErrLocked)
				if err := detached(client(t, srv), 0, with).Unlock(t.Context(), d.claim.ID); err != nil {
					t.Fatal(err)
				}
				last := d.claim.Token
				for _, w := range behind {
					h := w.got(t)
					if h.Token() <= last {
						t.Errorf("token %d after %d", h.Token(), last)
					}
					last = h.Token()
					unlock(t, h)
				}
				wantQueued(t, client(t, srv), 0)
			})
		})
	}
}

// Readers wait for it, too. They have looked when the waiter was the only one ahead, and before the change.
func TestReaderWaitsForADetachedLock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		change := make(chan struct{})
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			<-change
			return zktest.Pass
		})
		d := waitDetached(t.Context(), detached(client(t, srv), 0))
		r1, r2 := wait(t.Context(), rw(t, srv).RLocker()), wait(t.Context(), rw(t, srv).RLocker())
		close(change)
		<-d.done
		if !r1.waiting() || !r2.waiting() {
			t.Fatal("a reader holds the lock beside a Detached")
		}
		if err := detached(client(t, srv), 0).Unlock(t.Context(), d.claim.ID); err != nil {
			t.Fatal(err)
		}
		unlock(t, r1.got(t))
		unlock(t, r2.got(t))
	})
}

// A waiter that dies leaves nothing behind.
func TestDetachedThatDiesWhileItWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		before := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		maker := client(t, srv)
		d := waitDetached(t.Context(), detached(maker, 0))
		w := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		srv.Expire(mustSession(t, maker))
		maker.Close()
		<-d.done
		if d.err == nil {
			t.Error("a client that is closed holds the lock")
		}
		unlock(t, before)
		unlock(t, w.got(t))
		wantQueued(t, client(t, srv), 0)
	})
}

func mustSession(t *testing.T, c *zk.Client) int64 {
	t.Helper()
	s, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.ID()
}

// A waiter whose session ends queues again.
func TestDetachedWaitsOnInTheNextSession(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		before := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		maker := client(t, srv)
		d := waitDetached(t.Context(), detached(maker, 0))
		srv.Expire(mustSession(t, maker))
		time.Sleep(time.Second)
		unlock(t, before)
		<-d.done
		if d.err != nil {
			t.Fatal(d.err)
		}
		if e, p := nodesOf(t, client(t, srv)); e != 0 || p != 1 {
			t.Errorf("%d ephemeral and %d persistent nodes", e, p)
		}
	})
}

// Each request of Lock and of Unlock is lost once, in either direction. The lock is acquired all the same, by
// one node, and released by its id.
func TestDetachedUnderLostConnections(t *testing.T) {
	ops := []zkproto.Op{zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpGetChildren2, zkproto.OpMulti, zkproto.OpDelete}
	for _, op := range ops {
		for _, fault := range faults {
			t.Run(fmt.Sprintf("%v/%v", op, fault), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c, observer := client(t, srv), client(t, srv)
					var hit atomic.Bool
					srv.Intercept(op, func(string) zktest.Action {
						if hit.CompareAndSwap(false, true) {
							return fault
						}
						return zktest.Pass
					})
					d := detached(c, 0)
					got := claim(t, d)
					if e, p := nodesOf(t, observer); e != 0 || p != 1 {
						t.Errorf("%d ephemeral and %d persistent nodes; want the one lock", e, p)
					}
					if stat, ok, err := observer.Exists(t.Context(), got.Path); err != nil || !ok || stat.EphemeralOwner != 0 {
						t.Errorf("the claim's node: %v %v %v", stat, ok, err)
					}
					if err := d.Unlock(t.Context(), got.ID); err != nil {
						t.Error(err)
					}
					wantQueued(t, observer, 0)
					if !hit.Load() {
						t.Error("the fault never struck")
					}
				})
			})
		}
	}
}

// The answer to the change is lost, and the session with it. The next session finds out whether the lock is held,
// and the change cannot happen later.
func TestDetachedWhoseSessionEndsDuringTheChange(t *testing.T) {
	for _, fault := range faults {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c, observer := client(t, srv), client(t, srv)
				id := mustSession(t, c)
				var hit atomic.Bool
				srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
					if hit.CompareAndSwap(false, true) {
						go srv.Expire(id)
						return fault
					}
					return zktest.Pass
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				got, err := detached(c, 24*time.Hour).Lock(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if e, p := nodesOf(t, observer); e != 0 || p != 1 {
					t.Errorf("%d ephemeral and %d persistent nodes; want the one lock", e, p)
				}
				entries, err := holdfast.List(t.Context(), observer, lockPath)
				if err != nil || len(entries) != 1 || entries[0].ID != got.ID || entries[0].Token != got.Token || !entries[0].Expires.Equal(got.Expires) {
					t.Errorf("%+v, %v; want the claim %+v", entries, err, got)
				}
			})
		})
	}
}

// No server answers after the change was sent, until the caller has given up. The error has the id, by which
// the lock can be released.
func TestDetachedThatCannotFindOutSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, observer := client(t, srv), client(t, srv)
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			go c.Close()
			return zktest.DropReply
		})
		_, err := detached(c, 0).Lock(t.Context())
		wantErr(t, err, holdfast.ErrUncertain)
		srv.Intercept(zkproto.OpMulti, nil)
		entries, lerr := holdfast.List(t.Context(), observer, lockPath)
		if lerr != nil || len(entries) != 1 || !strings.Contains(fmt.Sprint(err), entries[0].ID) {
			t.Fatalf("%+v, %v; the error %v must have the id", entries, lerr, err)
		}
		if err := detached(observer, 0).Unlock(t.Context(), entries[0].ID); err != nil {
			t.Error(err)
		}
	})
}

// A caller that has given up gets no lock, and leaves none.
func TestDetachedGivesUpWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		before := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := detached(client(t, srv), 0).Lock(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		unlock(t, before)
		time.Sleep(time.Second)
		wantQueued(t, client(t, srv), 0)
		_, err = detached(client(t, srv), 0).Lock(lock(t, holdfast.NewMutex(client(t, srv), lockPath+"2")).Context())
		if err != nil {
			t.Error(err)
		}
	})
}

func TestUnlockOfADetachedLockNeedsItsId(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		d := detached(c, 0)
		err := d.Unlock(t.Context(), "ab")
		wantErr(t, err, holdfast.ErrNotHeld)
		if errors.Is(err, holdfast.ErrLocked) {
			t.Errorf("a free lock is held by another: %v", err)
		}
		got := claim(t, d)
		for _, id := range []string{"", "ab", got.ID[:31], strings.ToUpper(got.ID) + "x", strings.Repeat("x", 1<<20)} {
			err = d.Unlock(t.Context(), id)
			wantErr(t, err, holdfast.ErrLocked)
			wantErr(t, err, holdfast.ErrNotHeld)
			if len(err.Error()) > 250 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		}
		if err := d.Unlock(t.Context(), got.ID); err != nil {
			t.Error(err)
		}
		wantErr(t, d.Unlock(t.Context(), got.ID), holdfast.ErrNotHeld)
		lock(t, holdfast.NewMutex(c, lockPath))
		wantErr(t, d.Unlock(t.Context(), got.ID), holdfast.ErrLocked)
	})
}

// An expired lock is removed by the waiter behind it, and not before its time: a waiter that is next in line, a
// reader, one that is second in line behind another library, and TryLock.
func TestExpiredDetachedLockIsRemoved(t *testing.T) {
	const expires = time.Hour
	foreign := func(t *testing.T, srv *zktest.Server) { // it waits and removes nothing
		if _, _, err := client(t, srv).Create(t.Context(), lockPath+"/_c_0-lock-", nil, zk.EphemeralSequential); err != nil {
			t.Fatal(err)
		}
	}
	for name, behind := range map[string]func(t *testing.T, srv *zktest.Server) func() (over bool){
		"next": func(t *testing.T, srv *zktest.Server) func() bool {
			w := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
			return func() bool { return !w.waiting() }
		},
		"reader": func(t *testing.T, srv *zktest.Server) func() bool {
			w := wait(t.Context(), rw(t, srv).RLocker())
			return func() bool { return !w.waiting() }
		},
		"detached": func(t *testing.T, srv *zktest.Server) func() bool {
			w := waitDetached(t.Context(), detached(client(t, srv), 0))
			return func() bool {
				synctest.Wait()
				select {
				case <-w.done:
					return true
				default:
					return false
				}
			}
		},
		"second": func(t *testing.T, srv *zktest.Server) func() bool {
			foreign(t, srv)
			wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
			return func() bool { return len(queued(t, client(t, srv))) == 2 }
		},
		"try": func(t *testing.T, srv *zktest.Server) func() bool {
			m := holdfast.NewMutex(client(t, srv), lockPath)
			return func() bool {
				_, err := m.TryLock(t.Context())
				return err == nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				got := claim(t, detached(client(t, srv), expires))
				if d := time.Until(got.Expires); d < expires || d > expires+time.Second {
					t.Errorf("it expires in %v", d)
				}
				over := behind(t, srv)
				time.Sleep(time.Until(got.Expires) - time.Second)
				if over() {
					t.Fatal("the lock has ended before its time")
				}
				time.Sleep(2 * time.Second)
				if !over() {
					t.Fatalf("the expired lock is held: %v", queued(t, client(t, srv)))
				}
			})
		})
	}
}

// A waiter that may not remove an expired lock goes on waiting, and sends no flood of requests.
func TestExpiredDetachedLockThatNobodyMayRemove(t *testing.T) {
	withoutTTL(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		got := claim(t, detached(c, time.Minute))
		w := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		if _, err := c.SetACL(t.Context(), lockPath, []zk.ACL{{Perms: zk.PermAll &^ zk.PermDelete, Scheme: "world", ID: "anyone"}}, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		var deletes atomic.Int32
		srv.Intercept(zkproto.OpDelete, func(string) zktest.Action {
			deletes.Add(1)
			return zktest.Pass
		})
		time.Sleep(time.Hour)
		if !w.waiting() {
			t.Fatalf("the waiter has ended: %v", w.err)
		}
		if n := deletes.Load(); n != 1 {
			t.Errorf("%d requests to remove it", n)
		}
		_, err := holdfast.NewMutex(client(t, srv), lockPath).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		if _, err := c.SetACL(t.Context(), lockPath, []zk.ACL{{Perms: zk.PermAll, Scheme: "world", ID: "anyone"}}, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		if err := detached(c, 0).Unlock(t.Context(), got.ID); err != nil {
			t.Fatal(err)
		}
		w.got(t)
	})
}

// withoutTTL is inBubble with a server that has no nodes with a time to live.
func withoutTTL(t *testing.T, f func(t *testing.T, srv *zktest.Server)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer(func(c *zkserver.Config) { c.NoTTLNodes = true })
		defer srv.Close()
		f(t, srv)
	})
}

// The server removes an expired lock that only others wait for, if it can.
func TestServerRemovesAnExpiredDetachedLock(t *testing.T) {
	for name, tt := range map[string]struct {
		in    func(*testing.T, func(*testing.T, *zktest.Server))
		after int
	}{"with a time to live": {inBubble, 1}, "without": {withoutTTL, 2}} {
		t.Run(name, func(t *testing.T) {
			tt.in(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				got := claim(t, detached(c, time.Hour))
				if _, _, err := c.Create(t.Context(), lockPath+"/_c_0-lock-", nil, zk.EphemeralSequential); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(got.Expires))
				wantQueued(t, c, 2)
				time.Sleep(5 * time.Minute)
				wantQueued(t, c, tt.after)
			})
		})
	}
	inBubble(t, func(t *testing.T, srv *zktest.Server) { // a lost request does not change that
		c := client(t, srv)
		var lost atomic.Int32
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if lost.Add(1) <= 2 {
				return zktest.DropRequest
			}
			return zktest.Pass
		})
		got := claim(t, detached(c, time.Hour))
		time.Sleep(time.Until(got.Expires) + 5*time.Minute)
		wantQueued(t, c, 0)
		if lost.Load() < 3 {
			t.Error("no request was lost")
		}
	})
	inBubble(t, func(t *testing.T, srv *zktest.Server) { // more than servers accept
		if got := claim(t, detached(client(t, srv), 100*365*24*time.Hour)); time.Until(got.Expires) < 99*365*24*time.Hour {
			t.Errorf("it expires at %v", got.Expires)
		}
	})
}

// List, Break and Revoke know a lock that no session owns by the token that its maker was told.
func TestListBreakAndRevokeOfADetachedLock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		got := claim(t, detached(c, time.Hour, holdfast.WithOwner("api-7"), holdfast.WithReason("window")))
		entries, err := holdfast.List(t.Context(), c, lockPath)
		if err != nil || len(entries) != 1 {
			t.Fatal(entries, err)
		}
		e := entries[0]
		if !e.Held || !e.Detached || e.ID != got.ID || e.Token != got.Token || e.Session != 0 || e.Owner != "api-7" || e.Reason != "window" || !e.Expires.Equal(got.Expires) || e.Path != got.Path {
			t.Errorf("listed as %+v; want %+v", e, got)
		}
		revoke(t, c, got.Token)
		if after, err := holdfast.List(t.Context(), c, lockPath); err != nil || len(after) != 1 || !reflect.DeepEqual(after[0], e) {
			t.Errorf("after a request: %+v, %v", after, err)
		}
		w := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		wantErr(t, holdfast.Break(t.Context(), c, lockPath, got.Token+1<<40), holdfast.ErrNotHeld)
		if err := holdfast.Break(t.Context(), c, lockPath, got.Token); err != nil {
			t.Fatal(err)
		}
		w.got(t)
	})
}

// Other kinds of lock and other layouts do not share its name unnoticed, though its node is persistent.
func TestDetachedLockIsSeenByOtherKinds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		claim(t, detached(c, 0))
		_, err := holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.Kazoo)).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrKind)
		_, err = holdfast.NewSemaphore(c, lockPath, 2).TryAcquire(t.Context(), 1)
		wantErr(t, err, holdfast.ErrKind)
		_, err = holdfast.NewNodeLock(c, lockPath).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrKind)
		found, err := holdfast.Foreign(t.Context(), c, lockPath, layout.Kazoo)
		if err != nil || len(found) != 1 || found[0].Kind == "" {
			t.Errorf("Foreign: %v, %v", found, err)
		}
	})
}

func TestDetachedRefusesWhatItCannotDo(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		for name, opt := range map[string]holdfast.Option{
			"WithValue": holdfast.WithValue(nil), "WithLocalHandoff": holdfast.WithLocalHandoff(2), "WithKeep": holdfast.WithKeep(time.Second),
			"Reentrant": holdfast.Reentrant(), "WithObserver": holdfast.WithObserver(&holdfast.Observer{}),
		} {
			_, err := detached(c, 0, opt).Lock(t.Context())
			wantErr(t, err, zk.ErrBadArguments)
			if !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%v does not name %s", err, name)
			}
		}
		_, err := detached(c, -1).TryLock(t.Context())
		wantErr(t, err, zk.ErrBadArguments)
		for _, l := range []holdfast.Layout{layout.WriteLock, layout.HostRW, layout.SessionID, layout.Article, layout.Named("a"), {
			Name: "own", Mutex: "job-{uuid}-", Exclusive: []string{"job-*-"},
		}} {
			_, err := detached(c, 0, holdfast.WithLayout(l)).Lock(t.Context())
			wantErr(t, err, holdfast.ErrLayout)
		}
		h := lock(t, holdfast.NewMutex(c, lockPath))
		_, err = detached(c, 0).Lock(h.Context())
		wantErr(t, err, holdfast.ErrDeadlock)
	})
}

func upTo(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

// Callers of all sorts come and go, with sessions that end and connections that break: there is never more than
// one holder, and tokens grow.
func TestDetachedUnderRandomCallers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	for seed := range uint64(20) {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			random := rand.New(rand.NewPCG(seed, 17))
			var mu sync.Mutex // guards holders and last
			holders, last := 0, int64(0)
			enter := func(token int64) {
				mu.Lock()
				defer mu.Unlock()
				if holders++; holders > 1 {
					t.Errorf("seed %d: %d holders", seed, holders)
				}
				if token <= last {
					t.Errorf("seed %d: token %d after %d", seed, token, last)
				}
				last = token
			}
			leave := func() {
				mu.Lock()
				defer mu.Unlock()
				holders--
			}
			var callers sync.WaitGroup
			for range 8 {
				c, pause, lose := client(t, srv), rand.New(rand.NewPCG(random.Uint64(), 0)), random.IntN(3) == 0
				callers.Go(func() {
					for range 6 {
						time.Sleep(upTo(pause, 2*time.Second))
						if pause.IntN(2) == 0 {
							if lose {
								id := mustSession(t, c)
								time.AfterFunc(upTo(pause, 3*time.Second), func() { srv.Expire(id) })
							}
							d := detached(c, 0)
							got, err := d.Lock(t.Context())
							if err != nil {
								t.Error(err)
								return
							}
							enter(got.Token)
							time.Sleep(upTo(pause, 3*time.Second))
							leave()
							if err := d.Unlock(t.Context(), got.ID); err != nil {
								t.Error(err)
							}
							continue
						}
						h, err := holdfast.NewMutex(c, lockPath).Lock(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						enter(h.Token())
						select {
						case <-h.Lost():
						case <-time.After(upTo(pause, time.Second)):
						}
						leave()
						h.Unlock()
					}
				})
			}
			stop := make(chan struct{})
			go func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(700 * time.Millisecond):
						srv.CloseClientConnections()
					}
				}
			}()
			callers.Wait()
			close(stop)
			synctest.Wait()
		})
	}
}

// Somebody removes the waiter's node while the change is on its way. The next in line holds the lock, and the waiter
// queues again.
func TestDetachedWhoseNodeIsRemovedDuringTheChange(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin := client(t, srv), client(t, srv)
		before := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		d := waitDetached(t.Context(), detached(c, 0))
		w := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		token := tokenAt(t, admin, 1)
		removed := make(chan error, 1)
		var hit atomic.Bool
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if !hit.CompareAndSwap(false, true) {
				return zktest.Pass
			}
			removed <- holdfast.Break(t.Context(), admin, lockPath, token) // the request is held up meanwhile
			return zktest.DropRequest
		})
		unlock(t, before)
		if err := <-removed; err != nil {
			t.Fatal(err)
		}
		h := w.got(t)
		time.Sleep(time.Minute)
		select {
		case <-d.done:
			t.Fatalf("a detached lock is held beside the next in line: %+v, %v", d.claim, d.err)
		default:
		}
		unlock(t, h)
		<-d.done
		if d.err != nil || d.claim.Token <= h.Token() {
			t.Errorf("%+v, %v; want a token above %d", d.claim, d.err, h.Token())
		}
	})
}

// tokenAt returns the token of one place of the queue.
func tokenAt(t *testing.T, c *zk.Client, place int) int64 {
	t.Helper()
	entries, err := holdfast.List(t.Context(), c, lockPath)
	if err != nil || len(entries) <= place {
		t.Fatal(entries, err)
	}
	return entries[place].Token
}

// A Lock that cannot find out whether it holds the lock does not wait behind it, also if the next session ends, too.
func TestDetachedWhoseNextSessionEndsSaysSo(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, observer := client(t, srv), client(t, srv)
		var hit atomic.Bool
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if hit.CompareAndSwap(false, true) {
				return zktest.DropReply
			}
			return zktest.Pass
		})
		srv.Intercept(zkproto.OpDelete, func(string) zktest.Action { // Lock finds out whether it holds the lock
			go func() { srv.Expire(mustSession(t, c)) }()
			return zktest.DropReply
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := detached(c, 0).Lock(ctx)
		wantErr(t, err, holdfast.ErrUncertain)
		entries, lerr := holdfast.List(t.Context(), observer, lockPath)
		if lerr != nil || len(entries) != 1 || !strings.Contains(fmt.Sprint(err), entries[0].ID) {
			t.Fatalf("%+v, %v; the error %v must have the id", entries, lerr, err)
		}
	})
}

// The server that the caller reads from is behind: it does not show the lock yet. Unlock reads again behind a write,
// which a server that is behind cannot answer.
func TestUnlockAtAServerThatIsBehind(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin := client(t, srv)
		d := detached(client(t, srv), 0)
		got := claim(t, d)
		data, _, err := admin.Get(t.Context(), got.Path)
		if err != nil {
			t.Fatal(err)
		}
		if err := admin.Delete(t.Context(), got.Path, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action { // the server has caught up when it answers a write
			if _, _, err := admin.Create(t.Context(), got.Path, data, zk.Persistent); err != nil && !errors.Is(err, zk.ErrNodeExists) {
				t.Error(err)
			}
			return zktest.Pass
		})
		if err := d.Unlock(t.Context(), got.ID); err != nil {
			t.Errorf("the lock is held: %v", err)
		}
		wantQueued(t, admin, 0)
	})
}

// The server's clock is set while a detached lock is awaited, or held. The next caller gets the lock when the time of
// the detached lock is over. A step back costs at most that time once more, from the first look. A step forward while
// the lock is held ends it earlier.
func TestDetachedUnderAClockThatMoves(t *testing.T) {
	const d = 10 * time.Second
	for _, by := range []time.Duration{-time.Hour, -3 * time.Second, 0, time.Hour} {
		for _, during := range []string{"wait", "hold"} {
			for _, tries := range []bool{true, false} {
				for _, denied := range []bool{false, true} { // others may not write its node
					if denied && (tries || during == "wait") {
						continue
					}
					t.Run(fmt.Sprintf("%v in the %s, tries=%v, denied=%v", by, during, tries, denied), func(t *testing.T) {
						inBubble(t, func(t *testing.T, srv *zktest.Server) {
							h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
							var opts []holdfast.Option
							if denied {
								opts = append(opts, holdfast.WithACL(zk.ACL{Perms: zk.PermRead | zk.PermCreate | zk.PermDelete, Scheme: "world", ID: "anyone"}))
							}
							got := make(chan holdfast.Claim, 1)
							go func() {
								c, err := holdfast.NewDetached(client(t, srv), lockPath, d, opts...).Lock(t.Context())
								if err != nil {
									t.Error(err)
								}
								got <- c
							}()
							time.Sleep(time.Second)
							if during == "wait" {
								srv.MoveClock(by)
							}
							time.Sleep(time.Second)
							unlock(t, h)
							claim := <-got
							began := time.Now()
							if during == "hold" {
								srv.MoveClock(by)
							}
							for tries && time.Since(began) < time.Minute {
								h, err := holdfast.NewMutex(client(t, srv), lockPath).TryLock(t.Context())
								if err == nil {
									unlock(t, h)
									break
								}
								wantErr(t, err, holdfast.ErrLocked)
								time.Sleep(time.Second)
							}
							if !tries {
								unlock(t, lock(t, holdfast.NewMutex(client(t, srv), lockPath)))
							}
							least, most := d-2*time.Second, d+2*time.Second
							switch {
							case during == "hold" && by > 0:
								least, most = 0, time.Second
							case by == -3*time.Second:
								most += 3 * time.Second
							}
							if took := time.Since(began); took < least || took > most {
								t.Errorf("the lock was free after %v; want %v to %v; %+v", took, least, most, claim)
							}
						})
					})
				}
			}
		}
	}
}

// slowChange delays the transactions that acquire a detached lock: the first times of them, on their way to the server or
// back from it.
func slowChange(srv *zktest.Server, l *line, times int32, delay time.Duration, way string) {
	var seen atomic.Int32
	srv.Intercept(zkproto.OpMulti, func(path string) zktest.Action {
		if !strings.Contains(path, "/detaching-") || seen.Add(1) > times {
			return zktest.Pass
		}
		switch way {
		case "request":
			time.AfterFunc(delay, srv.Stall())
		case "answer":
			gate := make(chan struct{})
			l.deaf.Store(&gate)
			time.AfterFunc(delay, func() {
				l.deaf.Store(nil)
				close(gate)
			})
		case "lost answer": // and the lock is found late
			l.stay()
			time.AfterFunc(delay, l.connect)
			return zktest.DropReply
		}
		return zktest.Pass
	})
}

// wantClaim checks that the claim is all that is held, and that at least half of its time is left.
func wantClaim(t *testing.T, srv *zktest.Server, c *zk.Client, got holdfast.Claim, lasts time.Duration) {
	t.Helper()
	if left := time.Until(got.Expires); 2*left < lasts {
		t.Errorf("%v are left of a lock that lasts %v", left, lasts)
	}
	entries, err := holdfast.List(t.Context(), c, lockPath)
	if err != nil || len(entries) == 0 || entries[0].ID != got.ID || entries[0].Path != got.Path || entries[0].Token != got.Token || !entries[0].Expires.Equal(got.Expires) {
		t.Errorf("listed: %+v, %v; want %+v", entries, err, got)
	}
	_, err = holdfast.NewMutex(client(t, srv), lockPath).TryLock(t.Context())
	wantErr(t, err, holdfast.ErrLocked)
}

// The transaction that acquires the lock, or its answer, is late. The lock that the caller gets still lasts for at
// least half of its time, and nobody else has it. A claim whose time is short is given up, and the caller tries again.
func TestDetachedWhoseAnswerIsLate(t *testing.T) {
	const delay = 3 * time.Second
	for _, way := range []string{"request", "answer", "lost answer"} {
		for lasts, again := range map[time.Duration]bool{2 * time.Second: true, 4 * time.Second: true, 5 * time.Second: true, 13 * time.Second: false} {
			for _, try := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/try %v", way, lasts, try), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						l, observer := newLine(t, srv), client(t, srv)
						slowChange(srv, l, 1, delay, way)
						d := detached(l.Client, lasts)
						acquire := d.Lock
						if try {
							acquire = d.TryLock
						}
						got, err := acquire(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						wantClaim(t, srv, observer, got, lasts)
						if e, p := nodesOf(t, observer); e != 0 || p != 1 {
							t.Errorf("%d ephemeral and %d persistent nodes; want the one lock", e, p)
						}
						if _, first := lastNumber(got.Path); first == again {
							t.Errorf("the lock is %s; want another place: %v", got.Path, again)
						}
					})
				})
			}
		}
	}
}

// lastNumber returns the number of a node, and whether it is the first of its directory.
func lastNumber(path string) (number string, first bool) {
	number = path[strings.LastIndexByte(path, '-')+1:]
	return number, number == "0000000000"
}

// While the answer is on its way, the lock expires, and the next in line acquires it. The caller waits for that one.
func TestDetachedThatIsPassedOnBeforeItsAnswer(t *testing.T) {
	for _, way := range []string{"answer", "lost answer"} {
		t.Run(way, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				l := newLine(t, srv)
				before := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
				slowChange(srv, l, 1, 3*time.Second, way)
				d := waitDetached(t.Context(), detached(l.Client, 2*time.Second))
				next := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
				unlock(t, before)
				time.Sleep(time.Minute)
				h := next.got(t)
				select {
				case <-d.done:
					t.Fatalf("Lock returns %+v, %v beside another holder", d.claim, d.err)
				default:
				}
				unlock(t, h)
				<-d.done
				if d.err != nil || d.claim.Token <= h.Token() {
					t.Fatalf("%+v, %v; want a token above %d", d.claim, d.err, h.Token())
				}
				wantClaim(t, srv, l.Client, d.claim, 2*time.Second)
			})
		})
	}
}

// A time that is shorter than the way to the server can never be granted. Lock does not try for ever, and leaves nothing.
func TestDetachedThatIsTooShort(t *testing.T) {
	for _, way := range []string{"request", "answer"} {
		for _, try := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/try %v", way, try), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					l := newLine(t, srv)
					slowChange(srv, l, 1000, 3*time.Second, way)
					d := detached(l.Client, 2*time.Second)
					acquire := d.Lock
					if try {
						acquire = d.TryLock
					}
					began := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					got, err := acquire(ctx)
					wantErr(t, err, zk.ErrBadArguments)
					if !strings.Contains(fmt.Sprint(err), "longer than 2s") || got != (holdfast.Claim{}) {
						t.Errorf("%+v, %v; want an error that says that the time is too short", got, err)
					}
					if took := time.Since(began); took > 20*time.Second {
						t.Errorf("it took %v", took)
					}
					wantQueued(t, client(t, srv), 0)

					ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					_, err = acquire(ctx) // the first answer comes after the caller has given up
					wantErr(t, err, context.DeadlineExceeded)
					synctest.Wait()
					wantQueued(t, client(t, srv), 0)
				})
			})
		}
	}
	inBubble(t, func(t *testing.T, srv *zktest.Server) { // it is over before the smallest unit of time
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var tries atomic.Int32
		srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
			if tries.Add(1) > 50 {
				cancel()
			}
			return zktest.Pass
		})
		_, err := detached(client(t, srv), 1).Lock(ctx)
		wantErr(t, err, zk.ErrBadArguments)
		got := claim(t, detached(client(t, srv), time.Millisecond))
		if got.Expires.Before(time.Now()) {
			t.Errorf("it has expired: %+v", got)
		}
	})
}

// The claim that came too late cannot be given up either: no server answers. It stays until it expires, and the caller
// does not get it.
func TestDetachedThatCannotBeGivenUp(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		l, observer := newLine(t, srv), client(t, srv)
		slowChange(srv, l, 1, 6*time.Second, "answer")
		srv.Intercept(zkproto.OpDelete, func(string) zktest.Action { return zktest.Throttle })
		d := waitDetached(t.Context(), detached(l.Client, 10*time.Second))
		time.Sleep(8 * time.Second)
		if e, p := nodesOf(t, observer); p != 1 {
			t.Fatalf("%d ephemeral and %d persistent nodes", e, p)
		}
		time.Sleep(30 * time.Second)
		srv.Intercept(zkproto.OpDelete, nil)
		<-d.done
		if d.err != nil {
			t.Fatal(d.err)
		}
		wantClaim(t, srv, observer, d.claim, 10*time.Second)
	})
}

// A client with permission can write any time of expiry. One that is before everything else is over, so the lock is
// removed, as it is if another client of ours has written such a time.
func TestForgedExpiry(t *testing.T) {
	for written, over := range map[string]bool{
		"-1": true, "1": true, "-9000000000000000": true, "-9223372036854775807": true, "-9223372036854775808": true,
		"9000000000000000": false, "9223372036854775807": false, "0": false,
	} {
		for name, of := range map[string]func(*zk.Client) holdfast.Locker{"mutex": mutexAt, "reader": readAt} {
			t.Run(name+"/"+written, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					got := claim(t, detached(c, 0))
					if _, err := c.Set(t.Context(), got.Path, []byte(`{"id":"`+got.ID+`","expires":`+written+`}`), zk.AnyVersion); err != nil {
						t.Fatal(err)
					}
					h, err := of(client(t, srv)).TryLock(t.Context())
					if over != (err == nil) {
						t.Fatalf("TryLock: %v; want the lock: %v", err, over)
					}
					if over {
						unlock(t, h)
						return
					}
					w := wait(t.Context(), of(client(t, srv)))
					time.Sleep(time.Hour)
					if !w.waiting() {
						t.Error("the lock has ended before its time")
					}
				})
			})
		}
	}
}
