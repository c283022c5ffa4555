package zk_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/zk"
	"holdfast/zktest"
)

// All changes happen while the client is disconnected. It gets events for the changes it has not seen,
// and none for those it has.
func TestWatchesTellWhatWasMissed(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		ctx := t.Context()
		other := dial(t, srv.Config())
		cfg := srv.Config()
		direct := cfg.Dial
		var away atomic.Bool
		var nc atomic.Value
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if away.Load() {
				return nil, net.ErrClosed
			}
			c, err := direct(ctx, network, addr)
			if err == nil {
				nc.Store(&c)
			}
			return c, err
		}
		c := dial(t, cfg)
		for _, p := range []string{"/changed", "/deleted", "/grown", "/kept"} {
			create(t, other, p)
		}
		_, _, changed, _ := c.GetW(ctx, "/changed")
		_, _, deleted, _ := c.GetW(ctx, "/deleted")
		_, _, grown, _ := c.ChildrenW(ctx, "/grown")
		_, _, born, _ := c.ExistsW(ctx, "/born")
		_, _, kept, _ := c.GetW(ctx, "/kept")
		away.Store(true)
		(*nc.Load().(*net.Conn)).Close()
		for _, op := range []zk.Op{zk.SetOp("/changed", nil, zk.AnyVersion), zk.DeleteOp("/deleted", zk.AnyVersion),
			zk.CreateOp("/born", nil, zk.Persistent), zk.CreateOp("/grown/x", nil, zk.Persistent)} {
			if _, err := other.Multi(ctx, op); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		away.Store(false)
		wantEvent(t, changed, zk.EventNodeDataChanged, "/changed")
		wantEvent(t, deleted, zk.EventNodeDeleted, "/deleted")
		wantEvent(t, born, zk.EventNodeCreated, "/born")
		wantEvent(t, grown, zk.EventNodeChildrenChanged, "/grown")
		select {
		case ev := <-kept.C:
			t.Errorf("%+v for a node that was not changed", ev)
		default:
		}
	})
}
