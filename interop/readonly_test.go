//go:build unix

package interop

import (
	"context"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zk"
)

// A server that lost its quorum and is read-only accepts only clients that only read. The error
// of Dial says so, and the client continues when the quorum is back.
func TestReadOnlyServerIsNamedByDial(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{Servers: 3, Flags: []string{"-Dreadonlymode.enabled=true"}})
	closing(t, z, err)
	c := dialURL(t, "zk://"+z.Addrs()[0])
	_, _, err = c.Create(ctx, "/before", nil, zk.Persistent)
	must(t, err)
	must(t, z.Kill(1))
	must(t, z.Kill(2))
	for mode := ""; mode != "read-only"; mode, _ = z.Mode(ctx, 0) {
		if ctx.Err() != nil {
			t.Fatalf("server 0 is %q; want read-only", mode)
		}
		pause(ctx, 50*time.Millisecond)
	}
	refused(t, "zk://"+z.Addrs()[0], as(), context.Canceled, z.Addrs()[0], "lost its quorum and is read-only", "start or reconnect the other servers")
	must(t, z.Restart(ctx, 1))
	again := dialURL(t, "zk://"+z.Addrs()[0])
	_, exists, err := again.Exists(ctx, "/before")
	must(t, err)
	if !exists {
		t.Error("/before is gone")
	}
}
