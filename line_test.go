package holdfast_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

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
	"WithinSession": {[]holdfast.Option{holdfast.WithinSession(7)}, func(_ holdfast.Entry, data []byte, _ []zk.ACL) bool {
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
