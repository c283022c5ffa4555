package holdfast_test

import (
	"sync/atomic"
	"testing"

	"holdfast"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// When the node goes, the next may begin at once: whatever works with the Hold's context is
// told before.
func TestContextEndsBeforeTheNodeGoes(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		m := holdfast.NewMutex(c, lockPath)
		h := lock(t, holdfast.NewMultiLock(m, holdfast.NewNodeLock(c, lockPath+"-node")))
		var deletes, early atomic.Int32
		srv.Intercept(zkproto.OpDelete, func(string) zktest.Action {
			deletes.Add(1)
			if h.Context().Err() == nil {
				early.Add(1)
			}
			return zktest.Pass
		})
		unlock(t, h)
		if deletes.Load() != 2 || early.Load() != 0 {
			t.Errorf("%d of %d nodes were removed while the context lasted", early.Load(), deletes.Load())
		}
	})
}
