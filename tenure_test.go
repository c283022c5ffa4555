package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// countLooks counts the reads that set a watch on nodes in a lock's queue.
func countLooks(srv *zktest.Server) *atomic.Int32 {
	looks := new(atomic.Int32)
	srv.Intercept(zkproto.OpGetData, func(path string) zktest.Action {
		if strings.HasPrefix(path, lockPath+"/") {
			looks.Add(1)
		}
		return zktest.Pass
	})
	return looks
}

func wantLooks(t *testing.T, looks *atomic.Int32, want int32) {
	t.Helper()
	synctest.Wait()
	if n := looks.Swap(0); n != want {
		t.Errorf("%d reads of nodes of the queue, want %d", n, want)
	}
}

// A lock that is released soon costs a create, a list and a delete. It does not look at its
// node, whatever timer others of its session have set.
func TestYoungHoldDoesNotLookAtItsNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath)
		looks := countLooks(srv)
		for _, held := range []time.Duration{0, holdfast.GracePeriod / 5, holdfast.GracePeriod * 3 / 5, holdfast.GracePeriod - 1} {
			for range 20 {
				h := lock(t, m)
				time.Sleep(held)
				unlock(t, h)
			}
			time.Sleep(10 * holdfast.GracePeriod)
			wantLooks(t, looks, 0)
		}
	})
}

// A longer Hold looks once, at the end of its grace period and not before, however many others
// of the session come and go.
func TestHoldLooksAtItsNodeOnceAfterItsYouth(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		looks := countLooks(srv)
		var holds []*holdfast.Hold
		for i := range 10 { // each half a grace period after the one before
			holds = append(holds, lock(t, holdfast.NewRWMutex(c, lockPath).RLocker()))
			unlock(t, lock(t, holdfast.NewRWMutex(c, lockPath).RLocker()))
			time.Sleep(holdfast.GracePeriod/2 - 1)
			wantLooks(t, looks, 0)
			time.Sleep(1 * time.Nanosecond)
			wantLooks(t, looks, min(int32(i), 1))
		}
		time.Sleep(10 * holdfast.GracePeriod)
		wantLooks(t, looks, 1)
		for _, h := range holds {
			if h.Context().Err() != nil {
				t.Error(context.Cause(h.Context()))
			}
			unlock(t, h)
		}
		wantNoNodes(t, c)
	})
}

// A loss or a release request during the grace period is reported at its end.
func TestYoungHoldIsToldAfterItsYouth(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin := client(t, srv), client(t, srv)
		for _, after := range []time.Duration{0, holdfast.GracePeriod / 2} {
			h := lock(t, holdfast.NewMutex(c, lockPath))
			began := time.Now()
			time.Sleep(after)
			if err := holdfast.Revoke(t.Context(), admin, lockPath, h.Token()); err != nil {
				t.Fatal(err)
			}
			<-h.Revoked()
			if told := time.Since(began); told > holdfast.GracePeriod {
				t.Errorf("asked to release %v after Lock, told after %v", after, told)
			}
			unlock(t, h)

			h = lock(t, holdfast.NewMutex(c, lockPath))
			began = time.Now()
			time.Sleep(after)
			if err := holdfast.Break(t.Context(), admin, lockPath, h.Token()); err != nil {
				t.Fatal(err)
			}
			<-h.Lost()
			if told := time.Since(began); told > holdfast.GracePeriod {
				t.Errorf("removed %v after Lock, told after %v", after, told)
			}
			wantErr(t, h.Unlock(), holdfast.ErrLost)
		}
	})
}

// The directory is removed with everything in it, and its numbers start again. Another node of
// our session gets our node's name, in a layout whose names tell sessions apart, not attempts.
func TestYoungHoldWhoseNameIsAnothersIsLost(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.SessionID))
		h := lock(t, m)
		for _, path := range []string{h.Path(), lockPath} {
			if err := c.Delete(t.Context(), path, zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
		}
		next := lock(t, m)
		if next.Path() != h.Path() {
			t.Fatalf("the names %s and %s differ: the test shows nothing", next.Path(), h.Path())
		}
		time.Sleep(holdfast.GracePeriod)
		synctest.Wait()
		wantErr(t, context.Cause(h.Context()), holdfast.ErrLost)
		wantErr(t, h.Unlock(), holdfast.ErrLost)
		if err := next.Context().Err(); err != nil {
			t.Errorf("the other: %v", err)
		}
		unlock(t, next)
	})
}

// The end of the session is reported at once, within the grace period and after it.
func TestEndOfTheSessionIsToldAtOnce(t *testing.T) {
	for _, held := range []time.Duration{0, holdfast.GracePeriod / 2, 2 * holdfast.GracePeriod} {
		t.Run(fmt.Sprint(held), func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				h := lock(t, holdfast.NewMutex(c, lockPath))
				time.Sleep(held)
				s, err := c.Session(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				srv.Expire(s.ID())
				<-s.Context().Done()
				over := time.Now()
				<-h.Lost()
				if late := time.Since(over); late != 0 {
					t.Errorf("told %v after the end of the session; want at once", late)
				}
				wantErr(t, context.Cause(h.Context()), holdfast.ErrLost)
				wantErr(t, h.Unlock(), holdfast.ErrLost)
			})
		})
	}
}

// A waiter that was asked to release while it waited knows it when it holds the lock.
func TestWaiterThatWasAskedKnowsItAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin := client(t, srv), client(t, srv)
		first := lock(t, holdfast.NewMutex(admin, lockPath))
		w := wait(t.Context(), holdfast.NewMutex(c, lockPath))
		entries, err := holdfast.List(t.Context(), admin, lockPath)
		if err != nil || len(entries) != 2 {
			t.Fatal(entries, err)
		}
		if err := holdfast.Revoke(t.Context(), admin, lockPath, entries[1].Token); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // it has seen the change of its node, and watches again
		unlock(t, first)
		h := w.got(t)
		select {
		case <-h.Revoked():
		default:
			t.Error("not told")
		}
		unlock(t, h)
	})
}

// kazoo #315: the first release of a re-entrant lock freed it.
func TestReentrantLockIsFreeAfterTheLastUnlock(t *testing.T) {
	for name, of := range map[string]func(*zk.Client, ...holdfast.Option) holdfast.Locker{
		"mutex": func(c *zk.Client, o ...holdfast.Option) holdfast.Locker { return holdfast.NewMutex(c, lockPath, o...) },
		"writer": func(c *zk.Client, o ...holdfast.Option) holdfast.Locker {
			return holdfast.NewRWMutex(c, lockPath, o...)
		},
		"node lock": func(c *zk.Client, o ...holdfast.Option) holdfast.Locker {
			return holdfast.NewNodeLock(c, lockPath, o...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				l := of(c, holdfast.Reentrant())
				a := lock(t, l)
				b, err := l.Lock(a.Context())
				if err != nil {
					t.Fatal(err)
				}
				d, err := l.TryLock(b.Context())
				if err != nil {
					t.Fatal(err)
				}
				if b.Token() != a.Token() || d.Token() != a.Token() || b.Path() != a.Path() {
					t.Errorf("tokens %d, %d, %d; want the same, since one tenure has one", a.Token(), b.Token(), d.Token())
				}
				wantNodes(t, c, 1)
				other := wait(t.Context(), of(client(t, srv)))
				unlock(t, a) // in any order
				wantErr(t, context.Cause(a.Context()), holdfast.ErrNotHeld)
				unlock(t, d)
				wantErr(t, d.Unlock(), holdfast.ErrNotHeld)
				if !other.waiting() || b.Context().Err() != nil {
					t.Fatal("the lock is free before the last Unlock")
				}
				unlock(t, b)
				unlock(t, other.got(t))
			})
		})
	}
}

func TestAllHoldsOfOneTenureAreTold(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := holdfast.NewMutex(client(t, srv), lockPath, holdfast.Reentrant())
		a := lock(t, m)
		b, err := m.Lock(a.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Expire(a.SessionID())
		for _, h := range []*holdfast.Hold{b, a} {
			<-h.Lost()
			wantErr(t, context.Cause(h.Context()), holdfast.ErrLost)
			wantErr(t, h.Unlock(), holdfast.ErrLost)
		}
	})
}

// Re-entry depends on the context's ancestry, not on the goroutine or the client.
func TestReentryIsByContext(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath, holdfast.Reentrant())
		a := lock(t, m)
		_, err := m.TryLock(t.Context()) // not a descendant
		wantErr(t, err, holdfast.ErrLocked)
		b, err := m.Lock(context.WithoutCancel(a.Context())) // still a descendant
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.WithoutCancel(b.Context())
		unlock(t, b)
		unlock(t, a)
		again, err := m.Lock(ctx) // no longer held, so a new tenure begins
		if err != nil {
			t.Fatal(err)
		}
		if again.Token() == a.Token() {
			t.Error("joined a tenure that had ended")
		}
		unlock(t, again)
		wantQueued(t, c, 0)
	})
}

func TestReaderJoinsItselfOnlyIfReentrant(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		plain := rw(t, srv)
		r := lock(t, plain.RLocker())
		_, err := plain.RLock(r.Context())
		wantErr(t, err, holdfast.ErrDeadlock)
		unlock(t, r)

		m := rw(t, srv, holdfast.Reentrant())
		r = lock(t, m.RLocker())
		w := wait(t.Context(), plain)
		again, err := m.RLock(r.Context()) // behind w it would wait for ever
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, r)
		if !w.waiting() {
			t.Fatal("a writer holds the lock beside a reader")
		}
		unlock(t, again)
		unlock(t, w.got(t))
	})
}

func TestLocksOfOneDirectoryAreNotEachOthersDeadlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		a := holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.Named("a")))
		b := holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.Named("b")))
		h := lock(t, a)
		other, err := b.Lock(h.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, err = a.Lock(other.Context())
		wantErr(t, err, holdfast.ErrDeadlock)
		unlock(t, other)
		unlock(t, h)
	})
}

// In kazoo's layout, permits are children of the lock's path, like the nodes of a Mutex.
func TestMutexIsNoPermitOfItsPath(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, kazoo := client(t, srv), holdfast.WithLayout(layout.Kazoo)
		h := lock(t, holdfast.NewMutex(c, lockPath, kazoo))
		_, err := holdfast.NewSemaphore(c, lockPath, 1, kazoo).Acquire(h.Context(), 1)
		wantErr(t, err, holdfast.ErrKind)
		unlock(t, h)
	})
}

// longestLook is how long a waiter takes at most to learn what no event tells it, see queue.LookAgain. A wait behind a node
// that cannot be read from the beginning is shorter.
const longestLook = 62 * time.Second

// hide takes the permission to read a node from everybody. Servers report no event of such a node.
func hide(t *testing.T, c *zk.Client, path string) {
	t.Helper()
	acl := zk.ACL{Perms: zk.PermAll &^ zk.PermRead, Scheme: "world", ID: "anyone"}
	if _, err := c.SetACL(t.Context(), path, []zk.ACL{acl}, zk.AnyVersion); err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
}

// hideAll hides the ephemeral nodes of a client.
func hideAll(t *testing.T, admin, of *zk.Client) {
	t.Helper()
	nodes, err := of.Ephemerals(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		hide(t, admin, node)
	}
}

// hidingKinds are the locks of which three clients stand in line.
var hidingKinds = map[string]func(c *zk.Client) holdfast.Locker{
	"mutex":     mutexAt,
	"writer":    writeAt,
	"reader":    func(c *zk.Client) holdfast.Locker { return holdfast.NewRWMutex(c, lockPath).RLocker() },
	"semaphore": func(c *zk.Client) holdfast.Locker { return holdfast.NewSemaphore(c, "/sem", 1).Locker(1) },
	"kazoo's": func(c *zk.Client) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, holdfast.WithLayout(layout.Kazoo))
	},
	"slots": func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, "/slots", 1).Locker(1) },
	"node":  func(c *zk.Client) holdfast.Locker { return holdfast.NewNodeLock(c, "/node") },
	"multi": func(c *zk.Client) holdfast.Locker {
		return holdfast.NewMultiLock(mutexAt(c), holdfast.NewMutex(c, "/other"))
	},
	"tree":       func(c *zk.Client) holdfast.Locker { return holdfast.NewTree(c, "/tree").Path("a/b") },
	"reservable": func(c *zk.Client) holdfast.Locker { return reserve.Locker(mutexAt(c)) },
	"local": func(c *zk.Client) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, holdfast.WithLocalHandoff(3))
	},
	"kept": func(c *zk.Client) holdfast.Locker {
		return holdfast.NewMutex(c, lockPath, holdfast.WithKeep(time.Second))
	},
	"election": func(c *zk.Client) holdfast.Locker { return campaigner{holdfast.NewElection(c, lockPath)} },
}

type campaigner struct{ e *holdfast.Election }

func (c campaigner) Lock(ctx context.Context) (*holdfast.Hold, error) {
	return c.e.Campaign(ctx, []byte("me"))
}
func (c campaigner) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	return c.e.TryCampaign(ctx, []byte("me"))
}

// Somebody takes the permission to read the nodes ahead while others wait behind them. No event tells that they are gone, and
// the waiters acquire the lock all the same, one after the other.
func TestWaitersBehindHiddenNodes(t *testing.T) {
	for kind, of := range hidingKinds {
		for _, when := range []string{"before they wait", "while they wait", "just before they go"} {
			for _, removed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/removed by hand %v", kind, when, removed), func(t *testing.T) {
					inBubble(t, func(t *testing.T, srv *zktest.Server) {
						admin := client(t, srv)
						clients := []*zk.Client{client(t, srv), client(t, srv), client(t, srv)}
						first := of(clients[0])
						if kind == "reader" {
							first = writeAt(clients[0])
						}
						h := lock(t, first)
						if when == "before they wait" {
							hideAll(t, admin, clients[0])
						}
						second, third := wait(t.Context(), of(clients[1])), wait(t.Context(), of(clients[2]))
						if !second.waiting() || !third.waiting() {
							t.Fatal("they do not wait:", second.err, third.err)
						}
						if when != "just before they go" {
							hideAll(t, admin, clients[0])
							hideAll(t, admin, clients[1])
							time.Sleep(3 * longestLook)
						}
						if !second.waiting() || !third.waiting() {
							t.Fatal("they have not waited:", second.err, third.err)
						}
						hideAll(t, admin, clients[0])
						hideAll(t, admin, clients[1])
						type queuer struct {
							*waiter
							c *zk.Client
						}
						holder, next := clients[0], []queuer{{second, clients[1]}, {third, clients[2]}}
						for turn := range 2 {
							byHand := removed && turn == 0 && kind != "local" && kind != "kept"
							switch {
							case byHand:
								nodes, err := holder.Ephemerals(t.Context(), "/")
								if err != nil {
									t.Fatal(err)
								}
								for _, node := range nodes {
									if err := admin.Delete(t.Context(), node, zk.AnyVersion); err != nil {
										t.Fatal(err)
									}
								}
							case kind == "slots" || kind == "node": // Unlock reads such a node first
								holder.Close()
							default:
								unlock(t, h)
							}
							released := time.Now()
							select {
							case <-next[0].done:
							case <-next[len(next)-1].done: // a NodeLock has no order, and readers share
								next[0], next[len(next)-1] = next[len(next)-1], next[0]
							case <-time.After(time.Hour):
								t.Fatal("nobody acquires the lock, an hour after it was released")
							}
							if took := time.Since(released); took > longestLook+2*time.Second {
								t.Errorf("acquired %v after the release", took)
							}
							h, holder, next = next[0].got(t), next[0].c, next[1:]
							hideAll(t, admin, holder)
						}
						if err := h.Err(); err != nil {
							t.Error(err)
						}
					})
				})
			}
		}
	}
}

// A holder whose node is hidden is told that somebody has removed it, also on a single server, whose proofs name no node.
func TestHolderOfAHiddenNodeIsTold(t *testing.T) {
	for kind, of := range hidingKinds {
		for _, mode := range []zk.LeaseMode{zk.LeasePing, zk.LeaseQuorum} {
			t.Run(fmt.Sprintf("%s/%d", kind, mode), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					admin := client(t, srv)
					cfg := srv.Config()
					cfg.Lease, cfg.SessionTimeout = mode, 20*time.Second
					c, err := zk.Dial(t.Context(), cfg)
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					h := lock(t, of(c))
					time.Sleep(5 * time.Second)
					hideAll(t, admin, c)
					time.Sleep(3 * longestLook)
					if err := h.Err(); err != nil {
						t.Fatalf("lost, and its node is there: %v", err)
					}
					nodes, err := c.Ephemerals(t.Context(), "/")
					if err != nil {
						t.Fatal(err)
					}
					for _, node := range nodes {
						if err := admin.Delete(t.Context(), node, zk.AnyVersion); err != nil {
							t.Fatal(err)
						}
					}
					select {
					case <-h.Lost():
					case <-time.After(longestLook):
						t.Error("not told that the node is gone")
					}
				})
			})
		}
	}
}

// A waiter's own node is hidden and removed. It does not acquire the lock when its turn would have come.
func TestWaiterWhoseOwnNodeIsHiddenAndRemoved(t *testing.T) {
	for _, kind := range []string{"mutex", "writer", "reader"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				admin, other, c := client(t, srv), client(t, srv), client(t, srv)
				h := lock(t, writeAt(other))
				w := wait(t.Context(), hidingKinds[kind](c))
				if !w.waiting() {
					t.Fatal(w.err)
				}
				hideAll(t, admin, c)
				nodes, err := c.Ephemerals(t.Context(), "/")
				if err != nil || len(nodes) != 1 {
					t.Fatal(nodes, err)
				}
				time.Sleep(longestLook)
				if err := admin.Delete(t.Context(), nodes[0], zk.AnyVersion); err != nil {
					t.Fatal(err)
				}
				between := lock(t, reserve.Locker(writeBehind{t, admin, h}))
				defer unlock(t, between)
				time.Sleep(2 * longestLook)
				if !w.waiting() {
					t.Errorf("it acquired the lock without a node, beside another: %v", w.err)
				}
			})
		})
	}
}

// writeBehind acquires the write side when h is released, behind its waiters.
type writeBehind struct {
	t *testing.T
	c *zk.Client
	h *holdfast.Hold
}

func (b writeBehind) Lock(ctx context.Context) (*holdfast.Hold, error) {
	w := wait(ctx, writeAt(b.c))
	unlock(b.t, b.h)
	<-w.done
	return w.hold, w.err
}
func (b writeBehind) TryLock(ctx context.Context) (*holdfast.Hold, error) { return b.Lock(ctx) }

// A caller of a Once waits behind a runner whose node is hidden. (That runner cannot record its run: a transaction that
// checks the node needs the permission to read it.)
func TestOnceBehindAHiddenRunner(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin, a, b := client(t, srv), client(t, srv), client(t, srv)
		begun, end := make(chan struct{}, 2), make(chan struct{})
		run := func(context.Context) ([]byte, error) {
			begun <- struct{}{}
			<-end
			return []byte("done"), nil
		}
		go once.New(a, "/once").Key("key").Do(t.Context(), run)
		<-begun
		result := make(chan string, 1)
		go func() {
			r, err := once.New(b, "/once").Key("key").Do(t.Context(), run)
			result <- fmt.Sprintf("%s %v", r.Value, err)
		}()
		synctest.Wait()
		hideAll(t, admin, a)
		time.Sleep(2 * longestLook)
		close(end)
		select {
		case got := <-result:
			if got != "done <nil>" {
				t.Error(got)
			}
		case <-time.After(longestLook + 2*time.Second):
			t.Error("it does not learn of the end of the run")
		}
	})
}

// Leaders goes on where the leader's node cannot be read any more.
func TestLeadersBehindAHiddenNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		admin, a, b := client(t, srv), client(t, srv), client(t, srv)
		e := func(c *zk.Client) *holdfast.Election { return holdfast.NewElection(c, lockPath) }
		h, err := e(a).Campaign(t.Context(), []byte("a"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		leaders := make(chan string, 100)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for l, err := range e(admin).Leaders(ctx) {
				leaders <- fmt.Sprintf("%s %v", l.Value, err)
			}
		}()
		want := func(text string) {
			t.Helper()
			select {
			case got := <-leaders:
				if got != text {
					t.Errorf("got %q; want %q", got, text)
				}
			case <-time.After(longestLook):
				t.Errorf("nothing; want %q", text)
			}
		}
		want("a <nil>")
		hideAll(t, admin, a)
		time.Sleep(3 * longestLook)
		unlock(t, h)
		want(" <nil>") // nobody leads
		if _, err := e(b).Campaign(t.Context(), []byte("b")); err != nil {
			t.Fatal(err)
		}
		want("b <nil>")
		cancel()
		<-done
		synctest.Wait()
	})
}
