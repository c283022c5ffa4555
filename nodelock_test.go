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
