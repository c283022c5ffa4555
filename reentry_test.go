package holdfast_test

import (
	"context"
	"testing"

	"holdfast"
	"holdfast/layout"
	"holdfast/zktest"
)

// kazoo #315: the first release of a re-entrant lock freed it.
func TestReentrantLockIsFreeAfterTheLastUnlock(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath, holdfast.Reentrant())
		a := lock(t, m)
		b, err := m.Lock(a.Context())
		if err != nil {
			t.Fatal(err)
		}
		d, err := m.TryLock(b.Context())
		if err != nil {
			t.Fatal(err)
		}
		if b.Token() != a.Token() || d.Token() != a.Token() || b.Path() != a.Path() {
			t.Errorf("tokens %d, %d, %d; want the same, since one tenure has one", a.Token(), b.Token(), d.Token())
		}
		wantQueued(t, c, 1)
		other := wait(t.Context(), holdfast.NewMutex(client(t, srv), lockPath))
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
