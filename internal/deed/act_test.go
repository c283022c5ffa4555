package deed

import (
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/locks"
	"holdfast/layout"
	"holdfast/reserve"
	"holdfast/zk"
	"holdfast/zktest"
)

// holdOn makes a client hold the lock, and returns the hold.
func holdOn(t *testing.T, c *zk.Client, path, owner string) *holdfast.Hold {
	t.Helper()
	h, err := holdfast.NewMutex(c, path, holdfast.WithOwner(owner)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// queued waits until n clients are in the queue of the lock.
func queued(t *testing.T, c *zk.Client, path string, n int) []holdfast.Entry {
	t.Helper()
	for {
		queue, err := holdfast.List(t.Context(), c, path)
		if err != nil {
			t.Fatal(err)
		}
		if len(queue) == n {
			return queue
		}
	}
}

// A plan names the holder, the waiters and the next one, and changes nothing. Do takes the lock from the holder only.
func TestPlanSaysWhatHappens(t *testing.T) {
	t.Parallel()
	srv := zktest.NewServer()
	defer srv.Close()
	c, admin := srv.Client(), srv.Client()
	h := holdOn(t, c, "/db", "ada")
	got := make(chan *holdfast.Hold)
	go func() {
		h, err := holdfast.NewMutex(srv.Client(), "/db", holdfast.WithOwner("bob")).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	queued(t, admin, "/db", 2)
	p, err := Look(t.Context(), admin, Breaking, "/db", nil, h.Token())
	if err != nil {
		t.Fatal(err)
	}
	n, next := p.Waiting()
	if len(p.Places) != 1 || p.Places[0].Owner != "ada" || n != 1 || next.Owner != "bob" {
		t.Errorf("%+v, %d wait, next %+v", p, n, next)
	}
	if queue := queued(t, admin, "/db", 2); queue[0].Token != h.Token() {
		t.Error("the plan has changed the queue")
	}
	if r, err := p.Do(t.Context(), admin, By{Name: "ops", Reason: "stuck"}); err != nil || r.Missing != nil {
		t.Errorf("%+v, %v", r, err)
	}
	if next := <-got; next.Token() <= h.Token() {
		t.Errorf("the next token is %d after %d", next.Token(), h.Token())
	}
}

// If the holder has changed since the plan was made, or since the token was read, nothing is done, and the error has
// the new holder.
func TestNothingIsDoneToTheNextHolder(t *testing.T) {
	t.Parallel()
	for _, a := range []Action{Breaking, Revoking} {
		t.Run(a.Name, func(t *testing.T) {
			srv := zktest.NewServer()
			defer srv.Close()
			c, admin := srv.Client(), srv.Client()
			first := holdOn(t, c, "/db", "ada")
			p, err := Look(t.Context(), admin, a, "/db", nil, first.Token())
			if err != nil {
				t.Fatal(err)
			}
			if err := first.Unlock(); err != nil {
				t.Fatal(err)
			}
			second := holdOn(t, c, "/db", "bob")
			_, err = p.Do(t.Context(), admin, By{Name: "ops"})
			_, seen := Look(t.Context(), admin, a, "/db", nil, first.Token())
			for _, err := range []error{err, seen} {
				changed, ok := errors.AsType[*ChangedError](err)
				if !ok || !errors.Is(err, holdfast.ErrNotHeld) || changed.Holder() == nil || changed.Holder().Token != second.Token() || changed.Holder().Owner != "bob" {
					t.Errorf("%v; want the new holder", err)
				}
			}
			select {
			case <-second.Revoked():
				t.Error("the next holder is asked")
			case <-second.Lost():
				t.Error("the next holder has lost the lock")
			default:
			}
			if queue := queued(t, admin, "/db", 1); queue[0].Token != second.Token() {
				t.Errorf("%+v", queue)
			}
			if log := readAudit(t, admin); len(log.Items) != 1 || log.Items[0].Outcome == "done" {
				t.Errorf("%+v", log)
			}
		})
	}
}

// The plan for a session has its places in all kinds of locks below the prefix, and Do leaves other sessions.
func TestSessionPlanHasAllKinds(t *testing.T) {
	t.Parallel()
	srv := zktest.NewServer()
	defer srv.Close()
	c, other, admin := srv.Client(), srv.Client(), srv.Client()
	holdOn(t, c, "/locks/mutex", "ada")
	holdOn(t, c, "/else/mutex", "ada")
	holdOn(t, other, "/locks/other", "bob")
	for _, l := range []holdfast.Locker{
		holdfast.NewSemaphore(c, "/locks/permits", 2, holdfast.WithOwner("ada")).Locker(1),
		holdfast.NewNodeLock(c, "/locks/node", holdfast.WithOwner("ada")),
		holdfast.NewMutex(c, "/locks/kazoo", holdfast.WithOwner("ada"), holdfast.WithLayout(layout.Kazoo)),
	} {
		if _, err := l.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	session, err := c.Session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p, err := LookSession(t.Context(), admin, "/locks/", session.ID())
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for _, at := range p.Places {
		seen[at.Lock] = at.Held && at.Token > 0 && at.Session == session.ID()
	}
	if len(p.Places) != 4 || !seen["/locks/mutex"] || !seen["/locks/permits"] || !seen["/locks/node"] || !seen["/locks/kazoo"] {
		t.Errorf("%+v", p.Places)
	}
	n, r, err := p.Do(t.Context(), admin, By{Name: "ops", Reason: "gone"})
	if n != 4 || err != nil || r.Missing != nil || r.Session != locks.SessionText(session.ID()) || len(r.Places) != 4 {
		t.Errorf("%d taken, %+v, %v", n, r, err)
	}
	if _, err := LookSession(t.Context(), admin, "/locks/", session.ID()); !errors.Is(err, holdfast.ErrNotHeld) {
		t.Errorf("%v; want ErrNotHeld", err)
	}
	queued(t, admin, "/locks/other", 1)
	queued(t, admin, "/else/mutex", 1)
}

// If a part of a deed was done when the rest is refused, the error says what was done.
func TestPartOfADeedIsTold(t *testing.T) {
	defer func(n int) { oneTransaction = n }(oneTransaction)
	oneTransaction = 1
	srv := zktest.NewServer()
	defer srv.Close()
	c, admin := srv.Client(), srv.Client()
	a := holdOn(t, c, "/locks/a", "ada")
	holdOn(t, c, "/locks/b", "ada")
	p, err := LookSession(t.Context(), admin, "/locks/", a.SessionID())
	if err != nil {
		t.Fatal(err)
	}
	last := p.Places[len(p.Places)-1].Lock
	if _, err := admin.SetACL(t.Context(), last, []zk.ACL{{Perms: zk.PermRead | zk.PermCreate, Scheme: "world", ID: "anyone"}}, zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	n, r, err := p.Do(t.Context(), admin, By{Name: "ops", Reason: "gone"})
	part, ok := errors.AsType[*PartlyError](err)
	if n != 1 || !ok || !errors.Is(err, zk.ErrNoAuth) || part.Done != "took 1 of 2 places from session "+locks.SessionText(a.SessionID()) {
		t.Errorf("%d taken, %v", n, err)
	}
	if !strings.HasPrefix(r.Outcome, part.Done) {
		t.Errorf("the audit has %q", r.Outcome)
	}

	h := holdOn(t, c, "/db", "ada")
	if err := reserve.For(t.Context(), h, time.Hour); err != nil {
		t.Fatal(err)
	}
	children, _, err := admin.Children(t.Context(), "/db")
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children { // the holder's node has none, so this matters for the reservation alone
		if _, err := admin.SetACL(t.Context(), "/db/"+child, []zk.ACL{{Perms: zk.PermRead, Scheme: "world", ID: "anyone"}}, zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
	}
	b, err := Look(t.Context(), admin, Breaking, "/db", nil, h.Token())
	if err != nil || b.Reserved == nil {
		t.Fatalf("%+v, %v", b, err)
	}
	r, err = b.Do(t.Context(), admin, By{Name: "ops", Reason: "gone"})
	if part, ok := errors.AsType[*PartlyError](err); !ok || !errors.Is(err, zk.ErrNoAuth) || !strings.HasPrefix(part.Done, "broke /db, token ") || !strings.HasPrefix(r.Outcome, part.Done) {
		t.Errorf("%v; the audit has %q", err, r.Outcome)
	}
	queued(t, admin, "/db", 0)
}
