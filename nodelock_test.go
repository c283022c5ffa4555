package holdfast_test

import (
	"testing"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

func nodeLock(t *testing.T, srv *zktest.Server) *holdfast.NodeLock {
	return holdfast.NewNodeLock(client(t, srv), lockPath, holdfast.WithOwner("api-7"))
}

// wantNode checks whether the lock's node exists.
func wantNode(t *testing.T, c *zk.Client, want bool) {
	t.Helper()
	if _, ok, err := c.Exists(t.Context(), lockPath); ok != want || err != nil {
		t.Errorf("the node exists: %v, %v; want %v", ok, err, want)
	}
}

func TestNodeLockIsOneNode(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		h := lock(t, nodeLock(t, srv))
		if h.Path() != lockPath {
			t.Errorf("path %s", h.Path())
		}
		_, err := nodeLock(t, srv).TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		entries, err := holdfast.List(t.Context(), c, lockPath)
		if err != nil || len(entries) != 1 || !entries[0].Held || entries[0].Owner != "api-7" || entries[0].Token != h.Token() {
			t.Errorf("%+v, %v", entries, err)
		}
		w := wait(t.Context(), nodeLock(t, srv))
		unlock(t, h)
		next := w.got(t)
		if next.Token() <= h.Token() {
			t.Errorf("token %d after %d; want it to grow", next.Token(), h.Token())
		}
		unlock(t, next)
		wantNode(t, c, false)
	})
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

func TestNodeLockReentry(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		plain, again := holdfast.NewNodeLock(c, lockPath), holdfast.NewNodeLock(c, lockPath, holdfast.Reentrant())
		h := lock(t, plain)
		_, err := plain.Lock(h.Context())
		wantErr(t, err, holdfast.ErrDeadlock)
		inner, err := again.Lock(h.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		wantNode(t, c, true)
		unlock(t, inner)
		wantNode(t, c, false)
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
