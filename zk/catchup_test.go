package zk_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"holdfast/zk"
	"holdfast/zktest"
)

// Watches are set in one flush, one per existing node. Their events say whether they belong to a
// catch-up.
func TestPipelinedWatchesTellWhatIsCaughtUp(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		cfg, gate := srv.Config(), make(chan struct{}, 1) // admits one connection at a time
		connect := cfg.Dial
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			select {
			case <-gate:
				return connect(ctx, network, addr)
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		gate <- struct{}{}
		c := dial(t, cfg)
		create(t, c, "/a")
		create(t, c, "/b")
		r, err := c.Pipeline(t.Context(), zk.GetWOp("/a"), zk.GetWOp("/none"), zk.GetWOp("/b"))
		wantErr(t, err, zk.ErrNoNode)
		if r[0].Watch == nil || r[1].Watch != nil || r[2].Watch == nil {
			t.Fatalf("%+v", r)
		}
		if _, err := c.MultiRead(t.Context(), zk.GetWOp("/a")); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("a watch in a multi-read: %v", err)
		}
		if err := c.Delete(t.Context(), "/a", 0); err != nil {
			t.Fatal(err)
		}
		if ev := <-r[0].Watch.C; ev.Type != zk.EventNodeDeleted || ev.CatchUp {
			t.Errorf("%+v", ev)
		}

		srv.CloseClientConnections()
		other := dial(t, srv.Config())
		if err := other.Delete(t.Context(), "/b", 0); err != nil {
			t.Fatal(err)
		}
		gate <- struct{}{}
		if ev := <-r[2].Watch.C; ev.Type != zk.EventNodeDeleted || !ev.CatchUp {
			t.Errorf("%+v: want a catch-up event, since the change happened while disconnected", ev)
		}
	})
}
