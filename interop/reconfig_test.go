//go:build unix

package interop

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"holdfast/interop/peers"
	"holdfast/zk"
	"holdfast/zk/admin"
)

// The ensemble really changes: a server leaves, and joins again.
func TestReconfigChangesTheEnsemble(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{
		Servers: 3, Settings: []string{"reconfigEnabled=true"},
		Flags: []string{"-Dzookeeper.DigestAuthenticationProvider.superDigest=" + digestID("super:"+planted)},
	})
	closing(t, z, err)
	gone, err := follower(ctx, z)
	must(t, err)
	// No client may use the server that leaves: it may close before it has answered.
	stay := func(cfg *zk.Config) { cfg.Servers = slices.Delete(z.Addrs(), gone, gone+1) }
	super := dialURL(t, z.URL(), as(zk.DigestAuth("super", planted)), stay, func(cfg *zk.Config) { cfg.Chroot, cfg.CreateChroot = "/some/chroot", true })
	other := dialURL(t, z.URL(), as(zk.DigestAuth("bob", planted)), stay)

	before, _, err := admin.Config(ctx, super)
	must(t, err)
	if ids := ids(before); !slices.Equal(ids, []int64{0, 1, 2}) {
		t.Fatalf("members %v", ids)
	}
	t.Logf("%+v", before)
	_, _, err = admin.Reconfig(ctx, other, admin.Reconfiguration{Leave: []int64{int64(gone)}}, zk.AnyVersion)
	wants(t, "reconfig by somebody", err, zk.ErrNoAuth)
	_, _, err = admin.Reconfig(ctx, super, admin.Reconfiguration{Leave: []int64{int64(gone)}}, before.Version+1)
	wants(t, "reconfig of another version", err, zk.ErrBadVersion)
	_, _, err = admin.Reconfig(ctx, super, admin.Reconfiguration{Join: []string{"nonsense"}}, zk.AnyVersion)
	wants(t, "reconfig with nonsense", err, zk.ErrBadArguments)

	// change reconfigures. It expects the watchers to be notified and to read the answered
	// configuration.
	change := func(r admin.Reconfiguration, version int64, want ...int64) admin.Ensemble {
		t.Helper()
		var watches []*zk.Watch
		for _, c := range []*zk.Client{super, other} {
			_, _, w, err := admin.ConfigW(ctx, c)
			must(t, err)
			watches = append(watches, w)
		}
		was, stat, err := admin.Reconfig(ctx, super, r, version)
		must(t, err)
		if !slices.Equal(ids(was), want) || was.Version <= version || stat.Mzxid < was.Version {
			t.Errorf("the ensemble has become %+v, %+v; want members %v", was, stat, want)
		}
		for i, c := range []*zk.Client{super, other} {
			next(ctx, t, watches[i], zk.EventNodeDataChanged, "/zookeeper/config")
			// A server that joins rewrites the node for itself, with the former version and its own
			// knowledge of the others' addresses. That is an event, too.
			for {
				now, _, w, err := admin.ConfigW(ctx, c)
				must(t, err)
				if now.Version == was.Version && slices.Equal(ids(now), want) {
					w.Stop()
					break
				}
				if now.Version >= was.Version {
					t.Fatalf("the configuration reads %+v; reconfig answered %+v", now, was)
				}
				next(ctx, t, w, zk.EventNodeDataChanged, "/zookeeper/config")
			}
		}
		return was
	}
	var rest []int64
	for _, m := range before.Members {
		if m.ID != int64(gone) {
			rest = append(rest, m.ID)
		}
	}
	two := change(admin.Reconfiguration{Leave: []int64{int64(gone)}}, before.Version, rest...)
	m := before.Members[gone]
	spec := fmt.Sprintf("server.%d=%s:participant;%s", m.ID, m.Peers, z.Addrs()[gone])
	three := change(admin.Reconfiguration{Join: []string{spec}}, two.Version, 0, 1, 2)
	var all []string
	for _, m := range three.Members {
		if m.ID != int64(gone) {
			all = append(all, fmt.Sprintf("server.%d=%s:participant;%s", m.ID, m.Peers, z.Addrs()[m.ID]))
		}
	}
	last := change(admin.Reconfiguration{Members: all}, three.Version, rest...)
	measured(t, "versions %#x, %#x, %#x, %#x", before.Version, two.Version, three.Version, last.Version)
}

func ids(e admin.Ensemble) []int64 {
	var all []int64
	for _, m := range e.Members {
		all = append(all, m.ID)
	}
	slices.Sort(all)
	return all
}
