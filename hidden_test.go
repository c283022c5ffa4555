package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/layout"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zktest"
)

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
	"slots": func(c *zk.Client) holdfast.Locker { return holdfast.NewSlots(c, "/slots", 1).Locker() },
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
