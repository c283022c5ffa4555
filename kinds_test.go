package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
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

// A kind is a way to lock lockPath that one caller holds at a time. The tests of this file tell stories that end the
// same way for every kind. The stories of one kind alone are in its own file.
type kind struct {
	name       string
	of         func(c *zk.Client) holdfast.Locker
	nodes      int   // how many a holder has
	inside     error // the error of TryLock under a Hold of the same lock
	unfair     bool  // waiters have no order
	reused     bool  // the name of a holder's node is that of its successor's node, too
	sharesNode bool  // goroutines of one client share a node
	parts      bool  // Lock waits for its parts with a context of its own
}

func kinds() []kind {
	with := func(l holdfast.Layout) holdfast.Option { return holdfast.WithLayout(l) }
	return []kind{
		{name: "mutex", of: mutexAt, nodes: 1, inside: holdfast.ErrDeadlock},
		{name: "mutex whose names come back", nodes: 1, inside: holdfast.ErrDeadlock, of: func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, with(layout.WriteLock))
		}},
		{name: "mutex that is handed on in memory", nodes: 1, inside: holdfast.ErrDeadlock, sharesNode: true, of: func(c *zk.Client) holdfast.Locker {
			return inMemory(c, 3)
		}},
		{name: "writer", of: writeAt, nodes: 1, inside: holdfast.ErrDeadlock},
		{name: "semaphore", nodes: 1, inside: holdfast.ErrLocked, of: func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSemaphore(c, lockPath, 1).Locker(1)
		}},
		{name: "semaphore of kazoo", nodes: 1, inside: holdfast.ErrLocked, of: func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSemaphore(c, lockPath, 1, with(layout.Kazoo)).Locker(1)
		}},
		{name: "three permits", nodes: 3, inside: holdfast.ErrLocked, of: func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSemaphore(c, lockPath, 3).Locker(3)
		}},
		{name: "slots", nodes: 1, inside: holdfast.ErrLocked, reused: true, of: func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSlots(c, lockPath, 1).Locker(1)
		}},
		{name: "three slots", nodes: 3, inside: holdfast.ErrLocked, reused: true, of: func(c *zk.Client) holdfast.Locker {
			return holdfast.NewSlots(c, lockPath, 3).Locker(3)
		}},
		{name: "node lock", nodes: 1, inside: holdfast.ErrDeadlock, unfair: true, reused: true, of: func(c *zk.Client) holdfast.Locker {
			return holdfast.NewNodeLock(c, lockPath)
		}},
		{name: "several locks", nodes: 3, parts: true, inside: holdfast.ErrDeadlock, unfair: true, of: func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMultiLock(append(mutexes(c, "a", "b"), holdfast.NewNodeLock(c, lockPath+"/c"))...)
		}},
		{name: "tree", nodes: 3, parts: true, inside: holdfast.ErrDeadlock, of: func(c *zk.Client) holdfast.Locker {
			return holdfast.NewTree(c, lockPath).Path("a/b")
		}},
		{name: "candidate", nodes: 1, inside: holdfast.ErrDeadlock, of: func(c *zk.Client) holdfast.Locker {
			return candidate{holdfast.NewElection(c, lockPath), "a"}
		}},
	}
}

// forEachKind runs a story for each kind, in a bubble of its own.
func forEachKind(t *testing.T, story func(t *testing.T, srv *zktest.Server, k kind)) {
	t.Helper()
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) { story(t, srv, k) })
		})
	}
}

// wantNodes checks how many nodes the present session of c has.
func wantNodes(t *testing.T, c *zk.Client, want int) {
	t.Helper()
	if names, err := c.Ephemerals(t.Context(), "/"); err != nil || len(names) != want {
		t.Errorf("the session has the nodes %q, %v; want %d", names, err, want)
	}
}

// heldBy returns the nodes of the holder that c has, in some order that is the same each time.
func heldBy(t *testing.T, c *zk.Client, k kind) []string {
	t.Helper()
	nodes, err := c.Ephemerals(t.Context(), "/")
	if err != nil || len(nodes) != k.nodes {
		t.Fatalf("%q, %v; want %d nodes", nodes, err, k.nodes)
	}
	slices.SortFunc(nodes, func(a, b string) int { return strings.Compare(path.Dir(a), path.Dir(b)) })
	return nodes
}

// wantFreedom checks that the clients have left no node, and that nothing is in another's way.
func wantFreedom(t *testing.T, srv *zktest.Server, k kind, clients ...*zk.Client) {
	t.Helper()
	synctest.Wait()
	for _, c := range clients {
		wantNodes(t, c, 0)
	}
	h, err := k.of(client(t, srv)).TryLock(t.Context())
	if err != nil {
		t.Fatalf("the lock is not free: %v", err)
	}
	unlock(t, h)
}

// soon locks within two minutes, so that a test of a bug that blocks for ever ends.
func soon(t *testing.T, l holdfast.Locker) *holdfast.Hold {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	h, err := l.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func wantGrown(t *testing.T, h, before *holdfast.Hold) {
	t.Helper()
	if h.Token() <= before.Token() {
		t.Errorf("token %d after %d; want it to grow", h.Token(), before.Token())
	}
}

// wantLost checks that a Hold has been told of its loss, and that it ends once.
func wantLost(t *testing.T, h *holdfast.Hold) {
	t.Helper()
	<-h.Lost()
	<-h.Context().Done()
	wantErr(t, context.Cause(h.Context()), holdfast.ErrLost)
	wantErr(t, h.Err(), holdfast.ErrLost)
	wantErr(t, h.Unlock(), holdfast.ErrLost)
	wantErr(t, h.Unlock(), holdfast.ErrNotHeld)
}

// remove deletes a node by hand.
func remove(t *testing.T, c *zk.Client, path string) {
	t.Helper()
	if err := c.Delete(t.Context(), path, zk.AnyVersion); err != nil {
		t.Error(err)
	}
}

func TestOneHolderAtATimeFirstComeFirstServed(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		c, other := client(t, srv), client(t, srv)
		h := lock(t, k.of(c))
		wantNodes(t, c, k.nodes)
		began := time.Now()
		for i := range 100 {
			_, err := k.of([]*zk.Client{c, other}[i%2]).TryLock(t.Context())
			wantErr(t, err, holdfast.ErrLocked)
			wantNodes(t, other, 0)
			wantNodes(t, c, k.nodes)
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("TryLock took %v", d)
		}
		var all []*waiter
		for i := range 6 { // those of one session, too
			all = append(all, wait(t.Context(), k.of([]*zk.Client{c, other, client(t, srv)}[i%3])))
		}
		for len(all) > 0 {
			if in, _ := apart(all); len(in) != 0 {
				t.Fatal("two hold the lock")
			}
			_, err := k.of(c).TryLock(t.Context())
			wantErr(t, err, holdfast.ErrLocked)
			unlock(t, h)
			synctest.Wait()
			time.Sleep(5 * time.Second) // a MultiLock may begin anew
			in, waiting := apart(all)
			if len(in) != 1 || !k.unfair && !k.sharesNode && in[0] != all[0] {
				t.Fatalf("%d hold the lock, the first in line: %v", len(in), len(in) > 0 && in[0] == all[0])
			}
			next := in[0].got(t)
			if !k.sharesNode || next.Token() != h.Token() { // handed on in memory, it keeps its token
				wantGrown(t, next, h)
			}
			h, all = next, waiting
		}
		unlock(t, h)
		wantFreedom(t, srv, k, c, other)
	})
}

// faults are the two ways to lose a request.
var faults = []zktest.Action{zktest.DropRequest, zktest.DropReply}

// Each request of a lock, of a wait in the same session, and of their ends is lost once, in either direction. The lock is
// acquired all the same, with no more nodes than it needs, by one at a time, and nothing is left behind.
func TestLostConnectionsAtAnyPointLeaveNoOrphan(t *testing.T) {
	ops := []zkproto.Op{
		zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpGetData, zkproto.OpExists, zkproto.OpDelete, zkproto.OpSetData,
	}
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			struck := make(map[zkproto.Op]bool)
			for _, op := range ops {
				for _, fault := range faults {
					for _, moment := range []string{"first use", "lock", "wait"} {
						t.Run(fmt.Sprintf("%v/%v/%s", op, fault, moment), func(t *testing.T) {
							inBubble(t, func(t *testing.T, srv *zktest.Server) {
								c := client(t, srv)
								var on, hit atomic.Bool
								srv.Intercept(op, func(path string) zktest.Action {
									if on.Load() && hit.CompareAndSwap(false, true) {
										return fault
									}
									return zktest.Pass
								})
								if moment != "first use" {
									unlock(t, lock(t, k.of(c))) // makes the directories
									synctest.Wait()
								}
								on.Store(moment != "wait")
								h := soon(t, k.of(c))
								wantNodes(t, c, k.nodes)
								time.Sleep(2 * holdfast.GracePeriod) // the look at its own node
								synctest.Wait()
								on.Store(true)
								ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
								defer cancel()
								w := wait(ctx, k.of(c))
								time.Sleep(5 * time.Second)
								if !w.waiting() {
									t.Fatalf("one session has got the lock twice, or nothing: %v", w.err)
								}
								if h.Context().Err() != nil {
									t.Errorf("lost: %v", context.Cause(h.Context()))
								}
								if nodes, err := c.Ephemerals(t.Context(), h.Path()); err != nil || len(nodes) != 1 {
									t.Errorf("the holder's node is %q, %v", nodes, err)
								}
								unlock(t, h)
								next := w.got(t)
								time.Sleep(5 * time.Second)
								wantNodes(t, c, k.nodes)
								unlock(t, next)
								on.Store(false)
								wantFreedom(t, srv, k, c)
								struck[op] = struck[op] || hit.Load()
							})
						})
					}
				}
			}
			if !struck[zkproto.OpCreate2] && !struck[zkproto.OpMulti] || !struck[zkproto.OpGetData] && !struck[zkproto.OpExists] {
				t.Errorf("of all requests, only those of %v were lost: the test shows nothing", struck)
			}
		})
	}
}

// The wait ends behind a holder, or at its worst moment: a request is on its way or lost, and nobody knows the name of its
// node (CURATOR-79, kazoo #732, vitess #15756). The node is removed all the same.
func TestCancelledWaitLeavesNoNode(t *testing.T) {
	why := errors.New("changed my mind")
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		h, c := lock(t, k.of(client(t, srv))), client(t, srv)
		wantErr(t, h.Err(), nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		w := wait(ctx, k.of(c))
		if !w.waiting() {
			t.Fatal(w.err)
		}
		cancel(why)
		<-w.done
		wantErr(t, w.err, why)
		synctest.Wait()
		wantNodes(t, c, 0)
		unlock(t, h)
		wantFreedom(t, srv, k, c)
	})
	for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpMulti, zkproto.OpGetData} {
		for _, fault := range append(faults, zktest.Pass) {
			forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
				c := client(t, srv)
				unlock(t, lock(t, k.of(c))) // makes the directories
				synctest.Wait()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				srv.Intercept(op, func(string) zktest.Action {
					cancel(why)
					return fault
				})
				h, err := k.of(c).Lock(ctx)
				srv.Intercept(op, nil)
				if err == nil {
					unlock(t, h) // it was admitted before it noticed, or has sent no such request
				} else {
					wantErr(t, err, why)
				}
				time.Sleep(time.Second) // for the reconnect
				wantFreedom(t, srv, k, c)
			})
		}
	}
}

// The session of a holder ends: it is told, and the next in line gets the lock. The session of a waiter ends: the waiter
// queues again in its next session (CURATOR-595). A lost lock can be acquired again (consul #4902).
func TestEndOfASessionEndsHoldsAndNoWaits(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		first, c := client(t, srv), client(t, srv)
		dead := lock(t, k.of(first))
		w := wait(t.Context(), k.of(c))
		before, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		srv.Expire(before.ID())
		<-before.Context().Done()
		if !w.waiting() {
			t.Fatalf("the wait has ended with its session: %v", w.err)
		}
		srv.Expire(dead.SessionID())
		wantLost(t, dead)
		h := w.got(t)
		if h.SessionID() == before.ID() {
			t.Error("the lock is held in a session that is over")
		}
		wantGrown(t, h, dead)
		unlock(t, h)
		again := lock(t, k.of(first))
		wantGrown(t, again, h)
		unlock(t, again)
		wantFreedom(t, srv, k, first, c)
	})
}

// Somebody removes the node of a waiter. The waiter does not take "nobody ahead" for "mine" (etcd #11456), and queues again.
func TestWaiterWhoseNodeWasRemovedQueuesAgain(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		c, admin := client(t, srv), client(t, srv)
		h := lock(t, k.of(client(t, srv)))
		w := wait(t.Context(), k.of(c))
		nodes, err := c.Ephemerals(t.Context(), "/")
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range nodes { // a NodeLock's waiter has none
			remove(t, admin, node)
		}
		time.Sleep(5 * time.Second) // it has queued again at the back
		if again, err := c.Ephemerals(t.Context(), "/"); err != nil || len(again) != len(nodes) || len(nodes) > 0 && slices.Equal(again, nodes) {
			t.Errorf("the waiter's nodes are %q, %v; they were %q", again, err, nodes)
		}
		third := wait(t.Context(), k.of(client(t, srv)))
		if !w.waiting() || !third.waiting() {
			t.Fatal("two hold the lock")
		}
		unlock(t, h)
		time.Sleep(5 * time.Second)
		in, waiting := apart([]*waiter{w, third})
		if len(in) != 1 || !k.unfair && in[0] != w {
			t.Fatalf("%d hold the lock", len(in))
		}
		unlock(t, in[0].got(t))
		unlock(t, waiting[0].got(t))
		wantFreedom(t, srv, k, c)
	})
}

// A client is closed while it holds a lock and waits for it. The lock is free at once, and the wait ends with the reason
// (CURATOR-18).
func TestCloseEndsHoldsAndWaits(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		c := client(t, srv)
		h := lock(t, k.of(c))
		w := wait(t.Context(), k.of(c))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		<-w.done
		wantErr(t, w.err, zk.ErrClosed)
		wantLost(t, h)
		wantFreedom(t, srv, k)
	})
}

// The session has lapsed here, and the server has not noticed: our node of that session is still there, and no longer ours
// (CURATOR-498, CURATOR-604, CURATOR-653, CURATOR-696, KAFKA-1387). The create in the next session may be lost, too, and
// the search for its node finds the old one.
func TestOwnNodeOfADyingSessionIsWaitedFor(t *testing.T) {
	for _, drop := range []bool{false, true} {
		forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
			l := k.of(client(t, srv))
			h := lock(t, l)
			resume := srv.Stall()
			<-h.Lost()
			resume()
			if drop {
				dropOnce(srv, zkproto.OpCreate2, zktest.DropRequest)
			}
			_, err := l.TryLock(t.Context())
			wantErr(t, err, holdfast.ErrLocked)
			next := soon(t, l)
			if next.SessionID() == h.SessionID() {
				t.Error("the lock is held in the session that is over")
			}
			wantGrown(t, next, h)
			wantErr(t, h.Unlock(), holdfast.ErrLost)
			time.Sleep(time.Minute)
			if next.Context().Err() != nil {
				t.Error("the old Hold has removed the new one's node")
			}
			unlock(t, next)
			wantFreedom(t, srv, k)
		})
	}
}

// Told in time: a holder is cut off, its session ends at the server, and the next in line gets the lock. The holder has been
// told by then (CURATOR-460, CURATOR-696).
func TestHolderIsToldBeforeTheNext(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		holder, next := newLine(t, srv), newLine(t, srv)
		h := lock(t, k.of(holder.Client))
		w := wait(t.Context(), k.of(next.Client))
		if !w.waiting() {
			t.Fatal("two hold the lock")
		}
		began := time.Now()
		holder.cut()
		got := w.got(t)
		if h.Context().Err() == nil {
			t.Errorf("%v after the cut, the next client holds the lock, and the holder has not been told", time.Since(began))
		}
		unlock(t, got)
	})
}

// A node is removed under the holder, before Unlock or during it: then the event is in flight, and the delete reports the
// loss. Of several nodes, the loss of one is that of all.
func TestRemovedNodeIsALostLock(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		c, admin := client(t, srv), client(t, srv)
		h := lock(t, k.of(c))
		for i := range k.nodes {
			remove(t, admin, heldBy(t, c, k)[i])
			wantLost(t, h)
			wantFreedom(t, srv, k, c)
			h = lock(t, k.of(c))
		}
		var removed atomic.Bool
		for _, op := range []zkproto.Op{zkproto.OpDelete, zkproto.OpExists} {
			srv.Intercept(op, func(string) zktest.Action {
				if removed.CompareAndSwap(false, true) {
					remove(t, admin, h.Path())
				}
				return zktest.Pass
			})
		}
		wantErr(t, h.Unlock(), holdfast.ErrLost)
		wantFreedom(t, srv, k, c)
	})
}

// The holder does not know yet that it has lost one of its nodes, and its successor has written. The transaction fails
// (CURATOR-607).
func TestCommitAfterTheLossDoesNothing(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		c, other := client(t, srv), client(t, srv)
		if _, _, err := c.Create(t.Context(), ledger, nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		for i := range k.nodes {
			h := lock(t, k.of(c))
			if _, err := h.Commit(t.Context(), zk.SetOp(ledger, []byte("holder"), zk.AnyVersion)); err != nil {
				t.Fatal(err)
			}
			lost := heldBy(t, c, k)[i]
			srv.Intercept(zkproto.OpMulti, func(string) zktest.Action {
				srv.Intercept(zkproto.OpMulti, nil)
				remove(t, other, lost)
				if k.nodes == 1 {
					next := lock(t, k.of(other))
					if _, err := next.Commit(t.Context(), zk.SetOp(ledger, []byte("successor"), zk.AnyVersion)); err != nil {
						t.Error(err)
					}
					defer unlock(t, next)
				}
				return zktest.Pass
			})
			_, err := h.Commit(t.Context(), zk.SetOp(ledger, []byte("late"), zk.AnyVersion))
			wantErr(t, err, holdfast.ErrLost)
			if data, _, err := c.Get(t.Context(), ledger); err != nil || string(data) == "late" {
				t.Errorf("%q, %v", data, err)
			}
			wantLost(t, h)
			wantFreedom(t, srv, k, c, other)
		}
	})
}

// The context of Lock bounds the wait. The lock outlives it, for longer than a session lasts, and keeps its values (vitess
// #11794).
func TestContextOfLockBoundsTheWaitNotTheHold(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		type key struct{}
		c := client(t, srv)
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "kept"), time.Second)
		h, err := k.of(c).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		time.Sleep(5 * time.Minute)
		if h.Context().Err() != nil || !time.Now().Before(h.Deadline()) {
			t.Errorf("lost: %v", context.Cause(h.Context()))
		}
		if h.Context().Value(key{}) != "kept" {
			t.Error("the hold's context has lost the values")
		}
		_, err = k.of(client(t, srv)).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		unlock(t, h)
		wantErr(t, context.Cause(h.Context()), holdfast.ErrNotHeld)
		wantFreedom(t, srv, k, c)
	})
}

// Holders and waiters outlast connections that break and a server that starts again, and the event still comes.
func TestHoldsAndWaitsSurviveReconnects(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		c := client(t, srv)
		h := lock(t, k.of(client(t, srv)))
		w := wait(t.Context(), k.of(c))
		for i := range 10 {
			if i == 5 {
				srv.Restart()
			} else {
				srv.CloseClientConnections()
			}
			time.Sleep(time.Second)
		}
		if !w.waiting() || h.Context().Err() != nil {
			t.Fatalf("the wait has ended: %v, or the hold: %v", w.err, context.Cause(h.Context()))
		}
		unlock(t, h)
		time.Sleep(10 * time.Second) // the waiter looks again after 30 s
		if w.waiting() {
			t.Error("no event has woken the waiter")
		}
		unlock(t, w.got(t))
		wantFreedom(t, srv, k, c)
	})
}

// Of many that release a Hold at once, one succeeds, and none touches the next Hold (CURATOR-376).
func TestUnlockByManyAtOnceSucceedsOnce(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		l := k.of(client(t, srv))
		h := lock(t, l)
		var group sync.WaitGroup
		var ok atomic.Int32
		for range 10 {
			group.Go(func() {
				if err := h.Unlock(); err == nil {
					ok.Add(1)
				} else {
					wantErr(t, err, holdfast.ErrNotHeld)
				}
			})
		}
		group.Wait()
		if ok.Load() != 1 {
			t.Errorf("%d of 10 unlocked; want 1", ok.Load())
		}
		again := lock(t, l)
		wantErr(t, h.Unlock(), holdfast.ErrNotHeld)
		if again.Context().Err() != nil {
			t.Error("the Unlock of an old Hold ended a new one")
		}
		unlock(t, again)
	})
}

// Release does not wait for the server. Whatever the session sends afterwards finds the lock free.
func TestReleaseGoesAheadOfLaterRequests(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		l := k.of(client(t, srv))
		for range 20 {
			h, err := l.TryLock(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := h.Release(); err != nil {
				t.Fatal(err)
			}
			wantErr(t, context.Cause(h.Context()), holdfast.ErrNotHeld)
			wantErr(t, h.Release(), holdfast.ErrNotHeld)
			wantErr(t, h.Unlock(), holdfast.ErrNotHeld)
		}
	})
}

// TryLock waits for an answer until its context ends. It does not fail for lack of one, and leaves nothing behind.
func TestTryLockWaitsForAThrottledServer(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		c := client(t, srv)
		th := newThrottle(srv)
		th.on.Store(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := k.of(c).TryLock(ctx)
		wantErr(t, err, context.DeadlineExceeded)
		if d := time.Since(began); d != time.Minute {
			t.Errorf("TryLock returned after %v; want a minute", d)
		}
		th.on.Store(false)
		time.Sleep(2 * time.Second)
		unlock(t, lock(t, k.of(c)))
		wantFreedom(t, srv, k, c)
	})
}

// The name of a node comes back. Whatever ends a Hold removes only its own node, never the successor's (zk-ruby #34, etcd
// #22082).
func TestNoEndOfAHoldHitsTheNodeOfASuccessor(t *testing.T) {
	for name, end := range map[string]func(h *holdfast.Hold) error{
		"Unlock":           (*holdfast.Hold).Unlock,
		"Unlock when told": func(h *holdfast.Hold) error { <-h.Lost(); return h.Unlock() },
		"Release":          (*holdfast.Hold).Release,
		"CommitAndUnlock":  func(h *holdfast.Hold) error { _, err := h.CommitAndUnlock(context.Background()); return err },
		"its answer lost":  nil,
	} {
		forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
			if !k.reused {
				t.Skip("no name comes back")
			}
			c, other := client(t, srv), client(t, srv)
			h := lock(t, k.of(c))
			w := wait(t.Context(), k.of(other))
			if end == nil {
				dropOnce(srv, zkproto.OpDelete, zktest.DropReply)
				unlock(t, h)
			} else {
				for _, node := range heldBy(t, c, k) {
					remove(t, other, node)
				}
			}
			next := w.got(t)
			if end != nil {
				if err := end(h); err != nil {
					wantErr(t, err, holdfast.ErrLost)
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if next.Path() != h.Path() || next.Err() != nil {
				t.Errorf("%s: the successor has %s, %v", name, next.Path(), next.Err())
			}
			unlock(t, next)
		})
	}
}

// A caller that waits for itself waits for ever. It is told at once, also if another lock is in between. TryLock of permits
// does not wait.
func TestLockUnderItsOwnHoldIsADeadlock(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		c := client(t, srv)
		l := k.of(c)
		err := holdfast.Do(t.Context(), l, func(ctx context.Context) error {
			return holdfast.Do(ctx, holdfast.NewMutex(c, "/other"), func(ctx context.Context) error {
				_, err := l.Lock(ctx)
				wantErr(t, err, holdfast.ErrDeadlock)
				_, err = l.TryLock(ctx)
				wantErr(t, err, k.inside)
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		wantFreedom(t, srv, k, c)
	})
}

// The context ends and the lock becomes free at once. If the waiter acquired it then, nobody would release it (etcd #10111).
func TestWhoHasGivenUpGetsNoLock(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		if k.parts {
			t.Skip("no context that ends without waking anybody reaches the parts")
		}
		h := lock(t, k.of(client(t, srv)))
		ctx := &spentContext{Context: t.Context()}
		w := wait(ctx, k.of(client(t, srv)))
		if !w.waiting() {
			t.Fatal(w.err)
		}
		ctx.spent.Store(true)
		unlock(t, h)
		<-w.done
		wantErr(t, w.err, context.Canceled)
		if w.hold != nil {
			t.Error("Lock returned a Hold though its context had ended")
		}
		wantFreedom(t, srv, k)
	})
}

// A spentContext has ended without waking those that wait for its Done. So a waiter sees it that another event wakes at the
// same moment.
type spentContext struct {
	context.Context
	spent atomic.Bool
}

func (c *spentContext) Done() <-chan struct{} { return nil }

func (c *spentContext) Err() error {
	if c.spent.Load() {
		return context.Canceled
	}
	return nil
}

// Many callers try and wait over connections that break all the time. No more hold the lock than may, tokens grow, nobody
// waits for ever, and nothing is left behind (hazards 24 and 47).
func TestManyCallersUnderFaults(t *testing.T) {
	type crowd struct {
		kind
		room   int32 // how many may hold it; 0: one
		weight func(c *zk.Client, i int) (l holdfast.Locker, takes int32)
		ops    []zkproto.Op // that are lost
	}
	ops := []zkproto.Op{zkproto.OpCreate2, zkproto.OpDelete, zkproto.OpMulti, zkproto.OpGetChildren2, zkproto.OpExists, zkproto.OpGetData}
	var all []crowd
	for _, k := range kinds() {
		all = append(all, crowd{kind: k, ops: ops})
	}
	for _, l := range append(namelessLayouts(t), layouts...) { // names that do not tell two goroutines of a session apart, too
		all = append(all, crowd{kind: kind{name: "mutex of " + l.Name, of: func(c *zk.Client) holdfast.Locker {
			return holdfast.NewMutex(c, lockPath, holdfast.WithLayout(l))
		}}, ops: ops[:2]}) // the search for a node reads all others: with its own losses it would not end
	}
	for _, layout := range semaphoreLayouts {
		all = append(all, crowd{kind{name: "permits of " + layout.Name}, 3, func(c *zk.Client, i int) (holdfast.Locker, int32) {
			return holdfast.NewSemaphore(c, lockPath, 3, holdfast.WithLayout(layout)).Locker(1 + i%2), int32(1 + i%2)
		}, ops})
	}
	all = append(all, crowd{kind{name: "one of three slots"}, 3, func(c *zk.Client, i int) (holdfast.Locker, int32) {
		return holdfast.NewSlots(c, lockPath, 3).Locker(1, i%5-1), 1
	}, ops}, crowd{kind{name: "one to three of three slots"}, 3, func(c *zk.Client, i int) (holdfast.Locker, int32) {
		return holdfast.NewSlots(c, lockPath, 3).Locker(1+i%3, i%5-1), int32(1 + i%3)
	}, ops})
	for _, k := range all {
		if k.room == 0 {
			k.room, k.weight = 1, func(c *zk.Client, _ int) (holdfast.Locker, int32) { return k.of(c), 1 }
		}
		t.Run(k.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				var healed atomic.Bool
				for _, op := range k.ops {
					var n atomic.Int64
					srv.Intercept(op, func(string) zktest.Action {
						if i := n.Add(1); i%17 == 0 && !healed.Load() {
							return faults[i%2]
						}
						return zktest.Pass
					})
				}
				var group sync.WaitGroup
				var mu sync.Mutex
				held := make(map[int]bool)  // slots
				last := make(map[int]int64) // tokens of slots
				var out, most, turns int32
				var clients []*zk.Client
				for i := range 4 {
					c := client(t, srv)
					clients = append(clients, c)
					for j := range 4 {
						l, takes := k.weight(c, i+j)
						group.Go(func() {
							for range 5 {
								h, err := l.TryLock(t.Context())
								if err != nil {
									if h, err = l.Lock(t.Context()); err != nil {
										t.Error(err)
										return
									}
								}
								mu.Lock()
								turns, out = turns+1, out+takes
								most = max(most, out)
								numbers := h.Slots()
								if k.room == 1 {
									numbers = []int{0}
								} else if len(numbers) > 0 && len(numbers) != int(takes) {
									t.Errorf("slots %v; want %d of them", numbers, takes)
								}
								for _, slot := range numbers {
									if held[slot] {
										t.Errorf("two hold the lock or slot %d", slot)
									}
									if h.Token() < last[slot] || h.Token() == last[slot] && !k.sharesNode {
										t.Errorf("token %d after %d", h.Token(), last[slot])
									}
									held[slot], last[slot] = true, h.Token()
								}
								mu.Unlock()
								time.Sleep(5 * time.Millisecond)
								mu.Lock()
								out -= takes
								for _, slot := range numbers {
									held[slot] = false
								}
								mu.Unlock()
								unlock(t, h)
							}
						})
					}
				}
				group.Wait()
				healed.Store(true)
				if turns != 80 || most != k.room {
					t.Errorf("%d turns, at most %d out; want 80, %d", turns, most, k.room)
				}
				time.Sleep(time.Second)
				for _, c := range clients {
					wantNodes(t, c, 0)
				}
			})
		})
	}
}

// Other nodes in the directories of a lock count for nothing, whatever is like a place in their names. Otherwise a stray
// node would cost a permit for ever.
func TestForeignChildrenAreNoContenders(t *testing.T) {
	forEachKind(t, func(t *testing.T, srv *zktest.Server, k kind) {
		c := client(t, srv)
		unlock(t, lock(t, k.of(c)))
		for _, name := range []string{
			"lease_holder", "content", "lock-", "x-lock-1", "__lock__0000000000x", "other-0000000000", "x-lease-1", "lease-0000000000x",
			"slot-0", "slot-1", "slot--000000001", "slot-00000000000", "x-slot-0000000000",
		} {
			for _, dir := range []string{"", "/leases", "/slots", "/a", "/%2Fa"} {
				if dir == "" && (k.name == "semaphore of kazoo" || k.name == "mutex whose names come back") {
					continue // to the one every child is a permit, to the other any name with a number is a place
				}
				if _, _, err := c.Create(t.Context(), lockPath+dir+"/"+name, nil, zk.Persistent); err != nil && !errors.Is(err, zk.ErrNoNode) {
					t.Fatal(err)
				}
			}
		}
		wantFreedom(t, srv, k, c)
	})
}

// namelessLayouts are patterns whose names have no id.
func namelessLayouts(t *testing.T) (all []holdfast.Layout) {
	for text := range noIDs {
		l, err := holdfast.ParseLayout(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

func nodeLock(t *testing.T, srv *zktest.Server) *holdfast.NodeLock {
	return holdfast.NewNodeLock(client(t, srv), lockPath, holdfast.WithOwner("api-7"))
}

// A node that never goes away is no lock: the error says so instead of a wait for ever.
func TestNodeLockOnAnotherSortOfNodeIsAnError(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath)))
		_, err := nodeLock(t, srv).Lock(t.Context())
		wantErr(t, err, zk.ErrNodeExists)
	})
}

func TestNodeLockIsNotAnotherLockOfItsPath(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, holdfast.NewMutex(c, lockPath))
		_, err := holdfast.NewNodeLock(c, lockPath, holdfast.Reentrant()).Lock(h.Context())
		wantErr(t, err, holdfast.ErrKind)
		unlock(t, h)
	})
}

func TestNodeLockIsOneNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, nodeLock(t, srv))
		entries, err := holdfast.List(t.Context(), c, lockPath)
		if err != nil || len(entries) != 1 || !entries[0].Held || entries[0].Owner != "api-7" || entries[0].Token != h.Token() || h.Path() != lockPath {
			t.Errorf("%s: %+v, %v", h.Path(), entries, err)
		}
		unlock(t, h)
		if _, ok, err := c.Exists(t.Context(), lockPath); ok || err != nil {
			t.Errorf("the node exists: %v, %v", ok, err)
		}
	})
}
