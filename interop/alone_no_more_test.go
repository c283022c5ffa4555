//go:build unix

package interop

import (
	"context"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

// A single server comes back as a member of an ensemble, with its sessions and nodes. A holder keeps
// its lock, and is told in time when the server loses its leader. The server's answers to pings proved
// the session before, and no longer do.
func TestHolderIsToldInTimeWhenItsLoneServerHasJoinedAnEnsemble(t *testing.T) {
	const timeout = 20 * time.Second // a server takes time to come back
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{
		Relays: true, Settings: []string{"syncLimit=60", "maxSessionTimeout=60000"}, // a follower serves long without its leader
	})
	closing(t, z, err)
	config := func(server int) func(*zk.Config) {
		return func(cfg *zk.Config) {
			cfg.SessionTimeout, cfg.TickTime, cfg.Servers = timeout, z.Tick(), z.Addrs()[server:server+1]
		}
	}
	holder := dialURL(t, z.URL(), config(0))
	const path = "/alone"
	hold, err := holdfast.NewMutex(holder, path).Lock(ctx)
	must(t, err)

	must(t, z.Grow(ctx, 3))
	leader, err := z.AwaitLeader(ctx)
	must(t, err)
	for leader == 0 { // it has the history
		must(t, z.Restart(ctx, 0))
		leader, err = z.AwaitLeader(ctx)
		must(t, err)
	}
	if _, err := hold.Commit(ctx); err != nil {
		t.Fatalf("the lock did not survive the server's change: %v", err)
	}
	next := dialURL(t, z.URL(), config(leader))
	granted := make(chan error, 1)
	go func() {
		h, err := holdfast.NewMutex(next, path).Lock(ctx)
		if at := time.Now(); err == nil && hold.Context().Err() == nil {
			t.Errorf("the next holds the lock beside the first, which believes in it for another %v", hold.Deadline().Sub(at))
		}
		if err == nil {
			err = h.Unlock()
		}
		granted <- err
	}()
	awaitQueue(ctx, t, next, path, 2)
	z.Cut(0)
	began := time.Now()
	select {
	case <-hold.Context().Done():
		measured(t, "told %v after the cut", time.Since(began).Round(time.Millisecond))
		must(t, <-granted)
	case err := <-granted:
		must(t, err)
	}
	z.Heal(0)
}
