package holdfast_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// Somebody removes our node before the list of those ahead is read, and nobody is in the
// list: that is not "nobody ahead" (etcd #11456).
func TestNodeThatIsRemovedBeforeTheListIsNoHold(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c, admin := client(t, srv), client(t, srv)
		m := holdfast.NewMutex(c, lockPath)
		unlock(t, lock(t, m)) // the parents exist
		synctest.Wait()
		var removed atomic.Bool
		srv.Intercept(zkproto.OpGetChildren2, func(path string) zktest.Action {
			if path == lockPath && removed.CompareAndSwap(false, true) {
				for _, name := range queued(t, admin) {
					if strings.Contains(name, "lock-") {
						if err := admin.Delete(t.Context(), lockPath+"/"+name, zk.AnyVersion); err != nil {
							t.Error(err)
						}
					}
				}
			}
			return zktest.Pass
		})
		h := lock(t, m)
		synctest.Wait()
		if !removed.Load() {
			t.Error("nothing was removed: the test shows nothing")
		}
		if h.Context().Err() != nil {
			t.Errorf("a Hold without a node: %v", h.Context().Err())
		}
		wantQueued(t, admin, 1)
		unlock(t, h)
	})
}
