//go:build unix

package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"holdfast/interop/peers"
)

// Every operation of our client runs over and over. Meanwhile its server is killed, stopped and
// cut off from the others, as a follower and as the leader. If an answer was lost,
// MayHaveHappened and SafeToRetry lead to the outcome, as the client documents
// (drivers_test.go).

// faultTimeout is the session timeout under faults.
const faultTimeout = 30 * time.Second

// faultsTime bounds the time of all faults of a test.
const faultsTime = 5 * time.Minute

func TestEveryOperationUnderFaults(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), faultsTime)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{
		Servers: 3, Relays: true,
		// Servers may elect one that is stopped, and give up on it after initLimit (in ticks).
		// No session may end meanwhile.
		Settings: []string{"initLimit=10", longSessions},
	})
	closing(t, z, err)
	fleet := launch(ctx, t, z.URL(), 3)
	for _, f := range []struct {
		name string
		hurt func(z *peers.ZooKeeper, i int) error
		heal func(ctx context.Context, z *peers.ZooKeeper, i int) error
	}{
		{"killed", (*peers.ZooKeeper).Kill, restart},
		{"stopped", (*peers.ZooKeeper).Stop, resume},
		{"cut off", part, heal},
	} {
		for _, role := range []string{"follower", "leader"} {
			ctx, cancel := context.WithTimeout(ctx, stepTime)
			defer cancel()
			what := role + " " + f.name
			i, err := z.AwaitLeader(ctx)
			must(t, err)
			if role == "follower" {
				i = (i + 1) % 3
			}
			victim := z.Addrs()[i]
			for _, d := range fleet.drivers {
				d.gate.let(only(victim))
			}
			fleet.await(ctx, t, what+", before", func(d *driver) bool {
				server, working := d.settled()
				// Not while it moves: drivers are checked whenever one of them has moved, and
				// on a busy machine that is often during a handshake.
				if working && server != victim && d.gate.connectedTo() != victim {
					d.gate.cut()
				}
				return server == victim
			})
			for _, d := range fleet.drivers {
				d.gate.let(anywhere)
			}
			began := time.Now()
			must(t, f.hurt(z, i))
			fleet.await(ctx, t, what, func(d *driver) bool { server, _ := d.settled(); return server != victim })
			t.Logf("%s: all have moved and work after %v", what, time.Since(began).Round(time.Millisecond))
			must(t, f.heal(ctx, z, i))
		}
	}
	measured(t, "6 faults, felt by each: %s", fleet.land(t))
}

// longSessions lets Apache's servers grant faultTimeout.
var longSessions = fmt.Sprint("maxSessionTimeout=", faultTimeout.Milliseconds())

func part(z *peers.ZooKeeper, i int) error { z.Cut(i); return nil }

func heal(ctx context.Context, z *peers.ZooKeeper, i int) error {
	z.Heal(i)
	return z.AwaitReady(ctx, i)
}

// A killed single server takes all sessions along, and brings them back.
func TestEveryOperationWhileItsOnlyServerIsKilled(t *testing.T) {
	const kills = 4
	for _, s := range []struct {
		name  string
		start func(ctx context.Context, t *testing.T) (url string, again func(context.Context) error)
	}{
		{"holdfast serve", func(ctx context.Context, t *testing.T) (string, func(context.Context) error) {
			h, err := peers.StartHoldfast(ctx, holdfastBin(t), t.TempDir())
			closing(t, h, err)
			return h.URL(), h.Restart
		}},
		{"Apache ZooKeeper", func(ctx context.Context, t *testing.T) (string, func(context.Context) error) {
			z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{Settings: []string{longSessions}})
			closing(t, z, err)
			return z.URL(), func(ctx context.Context) error { return z.Restart(ctx, 0) }
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), faultsTime)
			defer cancel()
			url, again := s.start(ctx, t)
			fleet := launch(ctx, t, url, 0)
			for i := range kills {
				fleet.await(ctx, t, fmt.Sprint("after kill ", i), func(d *driver) bool { return d.moved() >= i })
				must(t, again(ctx))
			}
			fleet.await(ctx, t, "at the end", func(d *driver) bool { return d.moved() >= kills })
			measured(t, "killed %d times: %s", kills, fleet.land(t))
		})
	}
}
