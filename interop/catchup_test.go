//go:build unix

package interop

import (
	"context"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zk"
)

// Tests that count what other clients wrote rely on catchUp. It waits until the server has applied every
// write that any client knows of.
func TestCatchUpWaitsForAFollowerThatLags(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{Servers: 3, Relays: true})
	closing(t, z, err)
	leader, err := z.AwaitLeader(ctx)
	must(t, err)
	behind := (leader + 1) % 3
	writer, reader := dialURL(t, "zk://"+z.Addrs()[leader]), dialURL(t, "zk://"+z.Addrs()[behind])
	_, _, err = writer.Create(ctx, "/n", nil, zk.Persistent)
	must(t, err)
	must(t, catchUp(ctx, reader, "/n"))
	version := func() int32 {
		t.Helper()
		stat, _, err := reader.Exists(ctx, "/n")
		must(t, err)
		return stat.Version
	}

	z.Hold(leader, behind, true)
	_, err = writer.Set(ctx, "/n", nil, zk.AnyVersion)
	must(t, err)
	if v := version(); v != 0 {
		t.Fatalf("the follower does not lag: version %d", v)
	}
	done := make(chan error, 1)
	go func() { done <- catchUp(ctx, reader, "/n") }()
	select {
	case err := <-done:
		t.Errorf("catchUp returned while the follower lagged: %v", err)
		done <- nil
	case <-time.After(300 * time.Millisecond):
	}
	z.Hold(leader, behind, false)
	must(t, <-done)
	if v := version(); v != 1 {
		t.Errorf("version %d after catchUp; want 1", v)
	}
}
