package holdfast_test

import (
	"bytes"
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
	"holdfast/internal/lend"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// inMemory is a Mutex that goroutines of one client hand on n times.
func inMemory(c *zk.Client, n int) *holdfast.Mutex {
	return holdfast.NewMutex(c, lockPath, holdfast.WithLocalHandoff(n))
}

// Two clients with many goroutines each: one holder at a time, tokens never decrease, and
// most turns cost the server nothing.
func TestGoroutinesOfOneClientShareANode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		var wg sync.WaitGroup
		var holders atomic.Int32
		count, token, tokens := 0, int64(0), map[int64]bool{}
		for range 2 {
			m := inMemory(client(t, srv), 10)
			for range 16 {
				wg.Go(func() {
					for range 20 {
						h := lock(t, m)
						if holders.Add(1) != 1 {
							t.Error("two hold the lock")
						}
						if h.Token() < token {
							t.Errorf("token %d after %d; want it not to decrease", h.Token(), token)
						}
						token = h.Token()
						tokens[token] = true
						count++
						time.Sleep(time.Millisecond)
						holders.Add(-1)
						unlock(t, h)
					}
				})
			}
		}
		wg.Wait()
		if count != 2*16*20 {
			t.Errorf("%d turns", count)
		}
		// Eleven turns per node, and fewer for some at the end.
		if n := len(tokens); n > count/11+10 {
			t.Errorf("%d nodes for %d turns", n, count)
		}
		wantQueued(t, client(t, srv), 0)
	})
}

// Waiters of other clients wait for at most n local handoffs.
func TestLocalHandoffsAreBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := inMemory(c, 3)
		first := lock(t, m)
		var line []*waiter
		for range 6 {
			line = append(line, wait(t.Context(), m))
			synctest.Wait() // one after the other
		}
		stranger := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		wantQueued(t, c, 2) // the local queue has one node
		unlock(t, first)
		for i, w := range line[:3] {
			h := w.got(t)
			if h.Token() != first.Token() || h.Path() != first.Path() {
				t.Errorf("handoff %d: %s, token %d", i, h.Path(), h.Token())
			}
			if !stranger.waiting() {
				t.Fatal("two hold the lock")
			}
			unlock(t, h)
		}
		h := stranger.got(t)
		if !line[3].waiting() {
			t.Error("the lock was handed on a fourth time; want three")
		}
		unlock(t, h)
		for _, w := range line[3:] {
			h := w.got(t)
			if h.Token() <= first.Token() {
				t.Error("the lock has an old token")
			}
			unlock(t, h)
		}
		wantQueued(t, c, 0)
	})
}

// A waiter that gives up changes nothing for the others: they keep their order and their
// place in the queue, even if it came first.
func TestALineOutlivesItsFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		stranger := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		m := inMemory(c, 5)
		ctx, cancel := context.WithCancel(t.Context())
		first := wait(ctx, m)
		synctest.Wait()
		second := wait(t.Context(), m)
		synctest.Wait()
		third := wait(t.Context(), m)
		behind := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		wantQueued(t, c, 3)
		cancel()
		<-first.done
		wantErr(t, first.err, context.Canceled)
		unlock(t, stranger)
		h := second.got(t)
		if !behind.waiting() || !third.waiting() {
			t.Error("two hold the lock")
		}
		unlock(t, h)
		unlock(t, third.got(t))
		unlock(t, behind.got(t))
		wantQueued(t, c, 0)
	})
}

// When the last waiter leaves, no node is left behind, and the local queue works again.
func TestALineThatAllHaveLeftIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		stranger := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		m := inMemory(c, 5)
		ctx, cancel := context.WithCancel(t.Context())
		line := []*waiter{wait(ctx, m), wait(ctx, m), wait(ctx, m)}
		wantQueued(t, c, 2)
		cancel()
		for _, w := range line {
			<-w.done
			wantErr(t, w.err, context.Canceled)
		}
		synctest.Wait() // the node is removed in the background
		wantQueued(t, c, 1)
		unlock(t, stranger)
		unlock(t, lock(t, m))
		wantQueued(t, c, 0)
	})
}

// Our node is removed while the lock is handed on, with the same result.
func TestALineLosesItsNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := inMemory(c, 5)
		first := lock(t, m)
		second := wait(t.Context(), m)
		synctest.Wait()
		unlock(t, first)
		h := second.got(t)
		third := wait(t.Context(), m)
		synctest.Wait()
		if err := c.Delete(t.Context(), h.Path(), zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		<-h.Lost()
		next := third.got(t)
		if next.Token() <= h.Token() {
			t.Error("the lock has an old token")
		}
		wantErr(t, h.Unlock(), holdfast.ErrLost)
		unlock(t, next)
		wantQueued(t, c, 0)
	})
}

// A Hold that joined keeps the lock when the Hold it descends from is unlocked. The context
// of a Hold that is over joins no other tenure.
func TestReentryInALine(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithLocalHandoff(5), holdfast.Reentrant())
		outer := lock(t, m)
		inner, err := m.Lock(outer.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := wait(t.Context(), m)
		unlock(t, outer)
		if !next.waiting() {
			t.Fatal("the lock was handed on while a Hold that joined has it")
		}
		unlock(t, inner)
		h := next.got(t)
		stale := wait(outer.Context(), m)
		<-stale.done
		if stale.err == nil {
			t.Fatal("the context of an unlocked Hold joined its successor")
		}
		unlock(t, h)
	})
}

// A writer that also took the read side is not handed on: the next local writer would hold
// the lock beside the reader.
func TestDowngradeInALine(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := rw(t, srv, holdfast.WithLocalHandoff(5))
		w := lock(t, m)
		next := wait(t.Context(), m)
		synctest.Wait()
		r, err := m.RLock(w.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, w)
		if !next.waiting() {
			t.Fatal("a reader and a writer hold the lock")
		}
		unlock(t, r)
		unlock(t, next.got(t))
		wantQueued(t, c, 0)
	})
}

// Another client has asked for the lock: it is no longer handed on.
func TestARevokedLockLeavesTheLine(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, other := client(t, srv), client(t, srv)
		m := inMemory(c, 100)
		h := lock(t, m)
		line := wait(t.Context(), m)
		synctest.Wait()
		stranger := wait(t.Context(), holdfast.NewMutex(other, lockPath))
		wantQueued(t, c, 2)
		if err := holdfast.Revoke(t.Context(), other, lockPath, h.Token()); err != nil {
			t.Fatal(err)
		}
		<-h.Revoked()
		unlock(t, h)
		s := stranger.got(t)
		if !line.waiting() {
			t.Error("two hold the lock")
		}
		unlock(t, s)
		unlock(t, line.got(t))
	})
}

// A refusal by the ensemble reaches every local waiter, and the local queue survives it.
func TestALineIsToldOfErrors(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := inMemory(c, 5)
		unlock(t, lock(t, m))
		if _, err := c.SetACL(t.Context(), lockPath, []zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		line := []*waiter{wait(t.Context(), m), wait(t.Context(), m)}
		for _, w := range line {
			<-w.done
			wantErr(t, w.err, zk.ErrNoAuth)
		}
		if _, err := m.TryLock(t.Context()); err == nil {
			t.Error("allowed")
		} else {
			wantErr(t, err, zk.ErrNoAuth) // not ErrLocked: the local queue is empty
		}
	})
}

// Two Mutexes of the same name are one lock, and a MultiLock hands on the lock that it was
// handed.
func TestALineIsFoundByItsName(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h, err := holdfast.NewMultiLock(inMemory(c, 5), holdfast.NewMutex(c, lockPath+"2")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := wait(t.Context(), inMemory(c, 5))
		wantQueued(t, c, 1)
		unlock(t, h)
		got := next.got(t)
		if got.Token() != tokenOf(h, lockPath) {
			t.Error("the lock was not handed on")
		}
		unlock(t, got)
		wantQueued(t, c, 0)
	})
}

// Unlock races a Lock that joins: either the joining Lock keeps the lock, or the next in
// line has it.
func TestReentryRacesWithAHandoff(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := holdfast.NewMutex(client(t, srv), lockPath, holdfast.WithLocalHandoff(1000), holdfast.Reentrant())
		joined := 0
		for range 10000 {
			outer := lock(t, m)
			var next, inner *holdfast.Hold
			var inside atomic.Int32
			enter := func(h *holdfast.Hold) {
				if inside.Add(1) != 1 {
					t.Error("the tenure was both joined and handed on")
				}
				time.Sleep(time.Millisecond)
				inside.Add(-1)
				unlock(t, h)
			}
			waiting := wait(t.Context(), m)
			var wg sync.WaitGroup
			wg.Go(func() { unlock(t, outer) })
			wg.Go(func() {
				if inner, _ = m.Lock(outer.Context()); inner != nil {
					joined++
					enter(inner)
				}
			})
			wg.Go(func() {
				next = waiting.got(t)
				enter(next)
			})
			wg.Wait()
		}
		t.Logf("joined %d times", joined)
	})
}

// A hookedContext calls hook when its Hold is looked up.
type hookedContext struct {
	context.Context
	hook func()
}

func (c *hookedContext) Value(key any) any {
	if fmt.Sprintf("%T", key) == "holdfast.holdKey" {
		c.hook()
	}
	return c.Context.Value(key)
}

// The local queue has the lock and removes its first waiter to hand it over. At this moment
// the session ends and the waiter gives up. The waiter must not go back into the local
// queue: nothing would wake it there before the queue has the lock again.
func TestWaiterThatGivesUpWhileItsTurnFailsIsNotPutBack(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		first := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
		session, err := c.Session(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		asked := 0
		w := wait(&hookedContext{ctx, func() {
			if asked++; asked != 2 { // the first lookup is at the entry
				return
			}
			srv.Expire(session.ID())
			<-session.Context().Done()
			cancel()
			time.Sleep(time.Millisecond) // until everybody has heard of it
		}}, inMemory(c, 3))
		next := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
		unlock(t, first)
		h := next.got(t)
		if asked != 2 {
			t.Fatalf("looked up %d times: the test shows nothing", asked)
		}
		time.Sleep(time.Second) // the hook has returned by then
		if w.waiting() {
			t.Error("a Lock whose context has ended still waits")
		} else {
			wantErr(t, w.err, context.Canceled)
		}
		unlock(t, h)
		unlock(t, lock(t, inMemory(c, 3))) // the local queue works again
		wantQueued(t, c, 0)
	})
}

// A lock is handed on only to waiters for this lock: a client may wait for several.
func TestLinesOfTwoLocksDoNotMix(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		other := holdfast.NewMutex(c, lockPath+"2", holdfast.WithLocalHandoff(5))
		a := lock(t, inMemory(c, 5))
		w := wait(t.Context(), other) // free
		if w.waiting() {
			t.Fatal("it waits for a free lock")
		}
		b := w.got(t)
		next := wait(t.Context(), other)
		unlock(t, a)
		if !next.waiting() {
			t.Errorf("%s is handed on to a waiter for %s", a.Path(), b.Path())
		}
		unlock(t, b)
		h := next.got(t)
		if h.Token() != b.Token() || h.Path() != b.Path() {
			t.Errorf("got %s, token %d; want the lock that was handed on, %s, token %d", h.Path(), h.Token(), b.Path(), b.Token())
		}
		unlock(t, h)
		wantQueued(t, c, 0)
	})
}

// ownNodes are options with which a node differs from one without them.
var ownNodes = map[string]struct {
	options []holdfast.Option
	has     func(e holdfast.Entry, data []byte, acl []zk.ACL) bool
}{
	"WithACL": {[]holdfast.Option{holdfast.WithACL(zk.ACL{Perms: zk.PermRead | zk.PermDelete, Scheme: "world", ID: "anyone"})}, func(_ holdfast.Entry, _ []byte, acl []zk.ACL) bool {
		return len(acl) == 1 && acl[0].Perms == zk.PermRead|zk.PermDelete
	}},
	"WithValue": {[]holdfast.Option{holdfast.WithValue([]byte("10.0.0.5:80"))}, func(_ holdfast.Entry, data []byte, _ []zk.ACL) bool {
		return string(data) == "10.0.0.5:80"
	}},
	"an empty WithValue": {[]holdfast.Option{holdfast.WithValue(nil), holdfast.WithOwner("ada")}, func(e holdfast.Entry, _ []byte, _ []zk.ACL) bool {
		return e.Owner == ""
	}},
	"WithOwner":  {[]holdfast.Option{holdfast.WithOwner("ada")}, func(e holdfast.Entry, _ []byte, _ []zk.ACL) bool { return e.Owner == "ada" }},
	"WithReason": {[]holdfast.Option{holdfast.WithReason("schema 42")}, func(e holdfast.Entry, _ []byte, _ []zk.ACL) bool { return e.Reason == "schema 42" }},
	"WithLabels": {[]holdfast.Option{holdfast.WithLabels(map[string]string{"team": "a"})}, func(e holdfast.Entry, _ []byte, _ []zk.ACL) bool {
		return e.Labels["team"] == "a"
	}},
	"WithinSession": {[]holdfast.Option{lend.WithinSession(7).(holdfast.Option)}, func(_ holdfast.Entry, data []byte, _ []zk.ACL) bool {
		return bytes.Contains(data, []byte(`"within":7`))
	}},
	"WithLayout": {[]holdfast.Option{holdfast.WithLayout(holdfast.Layout{
		Name: "mine", Mutex: "mine-{uuid}-lock-", Write: "mine-{uuid}-__WRIT__", Read: "mine-{uuid}-__READ__",
		Exclusive: []string{"*lock-", "*__WRIT__"}, Shared: []string{"*__READ__"},
	})}, func(e holdfast.Entry, _ []byte, _ []zk.ACL) bool { return strings.HasPrefix(e.Name, "mine-") }},
}

// wantOwn checks that the node of h is as the options of its lock say.
func wantOwn(t *testing.T, c *zk.Client, h *holdfast.Hold, has func(holdfast.Entry, []byte, []zk.ACL) bool) {
	t.Helper()
	data, _, err := c.Get(t.Context(), h.Path())
	if err != nil {
		t.Fatal(err)
	}
	acl, _, err := c.GetACL(t.Context(), h.Path())
	if err != nil {
		t.Fatal(err)
	}
	entries, err := holdfast.List(t.Context(), c, lockPath)
	i := slices.IndexFunc(entries, func(e holdfast.Entry) bool { return e.Path == h.Path() })
	if err != nil || i < 0 {
		t.Fatal(entries, err)
	}
	if !has(entries[i], data, acl) {
		t.Errorf("the node has %q, %v: %+v", data, acl, entries[i])
	}
}

// A caller gets no node that was made with other options than its own: not that of a kept lock, and not that of a
// caller before it in the local queue. No option is dropped without a word.
func TestCallersOfALineHaveNodesOfTheirOwn(t *testing.T) {
	lines := map[string]holdfast.Option{"WithKeep": holdfast.WithKeep(time.Minute), "WithLocalHandoff": holdfast.WithLocalHandoff(5)}
	for name, o := range ownNodes {
		for line, with := range lines {
			t.Run(name+"/"+line, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c, admin := client(t, srv), client(t, srv)
					unlock(t, lock(t, holdfast.NewMutex(c, lockPath))) // makes the directory
					plain := holdfast.NewMutex(c, lockPath, with)
					mine := holdfast.NewMutex(c, lockPath, append([]holdfast.Option{with}, o.options...)...)
					wantOwn := func(h *holdfast.Hold) { wantOwn(t, admin, h, o.has) }
					isPlain := func(h *holdfast.Hold) {
						data, _, err := admin.Get(t.Context(), h.Path())
						if acl, _, aclErr := admin.GetACL(t.Context(), h.Path()); err != nil || aclErr != nil || len(acl) != 1 || acl[0].Perms != zk.PermAll ||
							strings.Contains(string(data), "ada") || string(data) == "10.0.0.5:80" {
							t.Errorf("the other's node has %q, %v", data, acl)
						}
					}
					for range 2 { // free, and kept
						h := lock(t, mine)
						wantOwn(h)
						unlock(t, h)
						h = lock(t, plain)
						isPlain(h)
						unlock(t, h)
						h, err := mine.TryLock(t.Context())
						if err != nil {
							t.Fatal(err)
						}
						wantOwn(h)
						unlock(t, h)
					}
					h := lock(t, plain) // they wait together
					waiters := []*waiter{wait(t.Context(), mine), wait(t.Context(), plain), wait(t.Context(), mine)}
					unlock(t, h)
					for range 3 {
						synctest.Wait()
						i := slices.IndexFunc(waiters, func(w *waiter) bool { return w != nil && !w.waiting() })
						if i < 0 {
							t.Fatal("nobody has the lock")
						}
						h := waiters[i].got(t)
						if waiters[i] = nil; i == 1 {
							isPlain(h)
						} else {
							wantOwn(h)
						}
						unlock(t, h)
					}
				})
			})
		}
	}
}

// The bound of the handoffs, and the time for which a lock is kept, are those of the caller.
func TestCallersOfALineHaveTheirOwnBounds(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		long := holdfast.NewMutex(c, lockPath, holdfast.WithKeep(time.Hour))
		short := holdfast.NewMutex(c, lockPath, holdfast.WithKeep(time.Minute))
		unlock(t, lock(t, long))
		unlock(t, lock(t, short))
		time.Sleep(2 * time.Minute)
		wantQueued(t, c, 0)
		unlock(t, lock(t, short))
		unlock(t, lock(t, long))
		time.Sleep(30 * time.Minute)
		wantKept(t, c, true)
	})
}

// An option that the server refuses, or that is not of locks, fails the caller that has given it, and not those who wait
// beside it.
func TestBadOptionFailsItsCallerAlone(t *testing.T) {
	for name, bad := range map[string]holdfast.Option{
		"an owner that is too large": holdfast.WithOwner(strings.Repeat("x", 2<<20)),
		"an invalid ACL":             holdfast.WithACL(zk.ACL{Perms: zk.PermAll, Scheme: "nonsense", ID: "x"}),
		"a value that is a request":  holdfast.WithValue([]byte("__REVOKE__")),
		"a value that is too large":  holdfast.WithValue(bytes.Repeat([]byte("x"), 2<<20)),
		"a layout without mutexes":   holdfast.WithLayout(holdfast.Layout{Name: "none", Exclusive: []string{"*lock-", "*__WRIT__"}, Shared: []string{"*__READ__"}}),
	} {
		for line, with := range map[string]holdfast.Option{"WithKeep": holdfast.WithKeep(time.Second), "WithLocalHandoff": holdfast.WithLocalHandoff(5)} {
			t.Run(name+"/"+line, func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					good, wrong := holdfast.NewMutex(c, lockPath, with), holdfast.NewMutex(c, lockPath, with, bad)
					holder := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
					failed := []*waiter{wait(t.Context(), wrong)}
					w := wait(t.Context(), good)
					failed = append(failed, wait(t.Context(), wrong))
					unlock(t, holder)
					unlock(t, w.got(t))
					time.Sleep(time.Minute)
					for _, w := range failed {
						if w.waiting() || w.err == nil {
							t.Fatalf("the caller with the bad option: %v", w.err)
						}
					}
					h := lock(t, good) // and the next time
					w = wait(t.Context(), wrong)
					unlock(t, h)
					time.Sleep(time.Minute)
					if w.waiting() || w.err == nil {
						t.Fatalf("the caller with the bad option: %v", w.err)
					}
					unlock(t, lock(t, good))
				})
			})
		}
	}
}

// A lock that a MultiLock names twice has one node, and so has the read side under a writer in some layouts. If the two
// differ in what the node cannot have twice, the caller is told.
func TestNodeThatCannotBeSharedIsRefused(t *testing.T) {
	closed := holdfast.WithACL(zk.ACL{Perms: zk.PermRead | zk.PermDelete, Scheme: "world", ID: "anyone"})
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath))) // makes the directory
		for name, tt := range map[string]struct {
			a, b []holdfast.Option
			ok   bool
		}{
			"the same":          {[]holdfast.Option{closed}, []holdfast.Option{closed}, true},
			"owners":            {[]holdfast.Option{holdfast.WithOwner("a")}, []holdfast.Option{holdfast.WithOwner("b")}, true},
			"two ACLs":          {nil, []holdfast.Option{closed}, false},
			"two values":        {[]holdfast.Option{holdfast.WithValue([]byte("a"))}, []holdfast.Option{holdfast.WithValue([]byte("b"))}, false},
			"a value and none":  {nil, []holdfast.Option{holdfast.WithValue(nil)}, false},
			"the same value":    {[]holdfast.Option{holdfast.WithValue([]byte("a"))}, []holdfast.Option{holdfast.WithValue([]byte("a"))}, true},
			"an ACL beside one": {[]holdfast.Option{closed}, nil, true}, // nobody has asked for an open node
		} {
			h, err := holdfast.NewMultiLock(holdfast.NewMutex(c, lockPath, tt.a...), holdfast.NewMutex(c, lockPath, tt.b...)).Lock(t.Context())
			if tt.ok {
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				unlock(t, h)
				continue
			}
			wantErr(t, err, zk.ErrBadArguments)
			if !strings.Contains(fmt.Sprint(err), "the same With") {
				t.Errorf("%s: %v does not say what to do", name, err)
			}
		}
	})
	inNamelessLayouts(t, func(t *testing.T, srv *zktest.Server, of func(...holdfast.Option) *holdfast.RWMutex, next func() *waiter) {
		w := lock(t, of())
		r := readUnder(t, of(), w)
		_, err := of(closed).RLock(w.Context())
		wantErr(t, err, zk.ErrBadArguments)
		unlock(t, r)
		unlock(t, readUnder(t, of(closed), w)) // nobody shares the node
		unlock(t, w)
		unlock(t, next().got(t))
	})
	inBubble(t, func(t *testing.T, srv *zktest.Server) { // nested locks
		c := client(t, srv)
		for _, l := range []struct{ outer, inner holdfast.Locker }{
			{holdfast.NewMutex(c, lockPath, holdfast.Reentrant()), holdfast.NewMutex(c, lockPath, holdfast.Reentrant(), closed)},
			{holdfast.NewMutex(c, lockPath, holdfast.Reentrant()), holdfast.NewMutex(c, lockPath, holdfast.Reentrant(), holdfast.WithValue(nil))},
			{holdfast.NewMutex(c, lockPath), holdfast.NewRWMutex(c, lockPath, closed).RLocker()},
			{holdfast.NewNodeLock(c, lockPath+"2", holdfast.Reentrant()), holdfast.NewNodeLock(c, lockPath+"2", holdfast.Reentrant(), closed)},
		} {
			h := lock(t, l.outer)
			_, err := l.inner.Lock(h.Context())
			wantErr(t, err, zk.ErrBadArguments)
			unlock(t, h)
			unlock(t, lock(t, l.inner))
		}
	})
}

// A transaction that waits when its Hold is unlocked is not executed under the next Hold, though that has the same node.
func TestCommitIsNotExecutedUnderTheNextHold(t *testing.T) {
	for name, opt := range map[string]holdfast.Option{"handed on": holdfast.WithLocalHandoff(5), "kept": holdfast.WithKeep(time.Minute)} {
		for _, lost := range []bool{false, true} { // its caller gives up, and it is still on its way
			t.Run(fmt.Sprint(name, lost), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					c := client(t, srv)
					m := holdfast.NewMutex(c, lockPath, opt)
					must := func(err error) {
						t.Helper()
						if err != nil {
							t.Fatal(err)
						}
					}
					_, _, err := c.Create(t.Context(), "/value", nil, zk.Persistent)
					must(err)
					a := lock(t, m)
					var resume func()
					if lost {
						resume = srv.Stall()
					} else {
						th := newThrottle(srv, zkproto.OpMulti)
						th.on.Store(true)
						resume = func() { th.on.Store(false) }
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					if !lost {
						ctx = t.Context()
					}
					committed := make(chan error, 1)
					go func() {
						_, err := a.Commit(ctx, zk.SetOp("/value", []byte("a"), zk.AnyVersion))
						committed <- err
					}()
					time.Sleep(2 * time.Second)
					var b *holdfast.Hold
					next := make(chan struct{})
					go func() {
						defer close(next)
						b, err = m.Lock(t.Context())
					}()
					synctest.Wait()
					go a.Unlock()
					time.Sleep(100 * time.Millisecond)
					var data []byte
					select {
					case <-next: // it holds the lock already, so nothing of a may be done any more
						must(err)
						resume()
						time.Sleep(5 * time.Second)
					default:
						resume()
						<-next
						must(err)
						data, _, err = c.Get(t.Context(), "/value")
						must(err)
						time.Sleep(5 * time.Second)
					}
					now, _, err := c.Get(t.Context(), "/value")
					must(err)
					if string(now) != string(data) {
						t.Errorf("the value is %q while another Hold has the lock; it was %q when that began", now, data)
					}
					if err := <-committed; lost {
						wantErr(t, err, context.DeadlineExceeded)
					} else {
						wantErr(t, err, holdfast.ErrNotHeld)
					}
					unlock(t, b)
				})
			})
		}
	}
}

// TryLock refuses options that no lock can honour, also if the client has the lock already.
func TestTryLockOfAKeptLockRefusesOptions(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath, holdfast.WithKeep(time.Minute))))
		_, err := holdfast.NewMutex(c, lockPath, holdfast.WithLocalHandoff(-1), holdfast.WithKeep(time.Minute)).TryLock(t.Context())
		wantErr(t, err, zk.ErrBadArguments)
	})
}
