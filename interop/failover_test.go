//go:build unix

package interop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zk"
)

// The client's behaviour when servers fail.

// startEnsemble starts three servers for this test alone, which may hurt them.
func startEnsemble(t *testing.T) *peers.ZooKeeper {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{Servers: 3})
	return closing(t, z, err)
}

// follower returns a server that does not lead.
func follower(ctx context.Context, z *peers.ZooKeeper) (int, error) {
	leader, err := z.Leader(ctx)
	return (leader + 1) % 3, err
}

func TestClientGoesOnElsewhereWithItsSessionAndWatches(t *testing.T) {
	z := startEnsemble(t)
	for _, c := range []struct {
		name   string
		victim func(context.Context, *peers.ZooKeeper) (int, error)
		hurt   func(z *peers.ZooKeeper, i int) error
		heal   func(ctx context.Context, z *peers.ZooKeeper, i int) error
	}{
		{"follower killed", follower, (*peers.ZooKeeper).Kill, restart},
		{"leader killed", func(ctx context.Context, z *peers.ZooKeeper) (int, error) { return z.Leader(ctx) }, (*peers.ZooKeeper).Kill, restart},
		{"follower stopped", follower, (*peers.ZooKeeper).Stop, resume},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stepTime)
			defer cancel()
			i, err := c.victim(ctx, z)
			must(t, err)
			defer func() {
				if err := c.heal(ctx, z, i); err != nil {
					t.Error(err)
				}
			}()
			moves(ctx, t, z, i, func() error { return c.hurt(z, i) })
		})
	}
}

func restart(ctx context.Context, z *peers.ZooKeeper, i int) error { return z.Restart(ctx, i) }

func resume(ctx context.Context, z *peers.ZooKeeper, i int) error {
	return errors.Join(z.Continue(i), z.AwaitReady(ctx, i))
}

// moves connects a client to server i and hurts that server. It changes one of the client's
// watched nodes while the client is away, and another after it has come back elsewhere.
func moves(ctx context.Context, t *testing.T, z *peers.ZooKeeper, i int, hurt func() error) {
	victim := z.Addrs()[i]
	others := slices.Delete(z.Addrs(), i, i+1)
	url := z.URL() + "/" + t.Name()
	g := newGate()
	g.let(only(victim))
	c := dialURL(t, url, func(cfg *zk.Config) {
		cfg.CreateChroot, cfg.Dial, cfg.SessionTimeout = true, g.dial, 10*time.Second
	})
	helper := dialURL(t, url, func(cfg *zk.Config) { cfg.Servers = others })
	s, err := c.Session(ctx)
	must(t, err)

	_, created, err := c.Create(ctx, "/mine", nil, zk.Ephemeral)
	must(t, err)
	var data []*zk.Watch
	for _, path := range []string{"/while-away", "/after"} {
		_, _, err = c.Create(ctx, path, nil, zk.Persistent)
		must(t, err)
		_, _, w, err := c.GetW(ctx, path)
		must(t, err)
		data = append(data, w)
	}
	_, _, missing, err := c.ExistsW(ctx, "/not-yet")
	must(t, err)
	_, _, children, err := c.ChildrenW(ctx, "/after")
	must(t, err)

	g.let(nowhere)
	must(t, hurt())
	// Servers that lose their leader drop their clients, so the helper may have to try again.
	for {
		_, err := helper.Set(ctx, "/while-away", []byte("changed"), zk.AnyVersion)
		if errors.Is(err, zk.ErrConnectionLoss) {
			continue
		}
		must(t, err)
		break
	}
	silent(t, data[0]) // the client cannot know yet
	g.let(func(addr string) bool { return addr != victim })

	next(ctx, t, data[0], zk.EventNodeDataChanged, "/while-away")
	_, stat, err := c.Get(ctx, "/mine")
	must(t, err)
	if now, err := c.Session(ctx); err != nil || now != s {
		t.Errorf("the session changed: %#x after %#x, %v", now.ID(), s.ID(), err)
	}
	if stat.EphemeralOwner != s.ID() || stat.Czxid != created.Czxid {
		t.Errorf("the ephemeral node changed: %+v; was %+v", stat, created)
	}
	if !slices.Contains(others, g.connectedTo()) {
		t.Errorf("connected to %s; want one of %s", g.connectedTo(), others)
	}
	for _, w := range []*zk.Watch{data[1], missing, children} {
		silent(t, w)
	}
	_, _, err = helper.Create(ctx, "/after/child", nil, zk.Persistent)
	must(t, err)
	next(ctx, t, children, zk.EventNodeChildrenChanged, "/after")
	_, err = helper.Set(ctx, "/after", []byte("changed"), 0)
	must(t, err)
	next(ctx, t, data[1], zk.EventNodeDataChanged, "/after")
	_, _, err = helper.Create(ctx, "/not-yet", nil, zk.Persistent)
	must(t, err)
	next(ctx, t, missing, zk.EventNodeCreated, "/not-yet")
}
