package holdfast_test

import (
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// The create in the next session is lost, and who looks for its node finds that of the
// session before, which the server has not ended yet: it is another attempt's, and about to
// go (CURATOR-604, CURATOR-498).
func TestNodeOfADyingSessionIsNotFoundInsteadOfOurs(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		m := holdfast.NewMutex(client(t, srv), lockPath)
		h := lock(t, m)
		resume := srv.Stall()
		<-h.Lost()
		resume()
		var lost atomic.Bool
		srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
			if lost.CompareAndSwap(false, true) {
				return zktest.DropRequest
			}
			return zktest.Pass
		})
		_, err := m.TryLock(t.Context())
		wantErr(t, err, holdfast.ErrLocked)
		next := lock(t, m)
		if !lost.Load() {
			t.Error("no create was lost: the test shows nothing")
		}
		if next.Session() == h.Session() || next.Token() <= h.Token() {
			t.Errorf("session %x, token %d after session %x, token %d", next.Session(), next.Token(), h.Session(), h.Token())
		}
		time.Sleep(time.Minute)
		if next.Context().Err() != nil {
			t.Error("the node that was found is gone")
		}
		unlock(t, next)
	})
}
