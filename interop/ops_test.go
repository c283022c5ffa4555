//go:build unix

package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/zk"
	"holdfast/zkproto"
)

// The operations of our client beyond those that locks need, on Apache's servers.

// onApache runs test with a fresh chroot on one ZooKeeper and on the ensemble.
func onApache(t *testing.T, test func(ctx context.Context, t *testing.T, c *zk.Client)) {
	onServers(t, servers[1:], test)
}

func TestClientCreatesNodesWithATimeToLive(t *testing.T) {
	onApache(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		path, stat, err := c.CreateTTL(ctx, "/ttl", []byte("x"), zk.Persistent, time.Hour)
		must(t, err)
		if path != "/ttl" || stat.EphemeralOwner != 0 {
			t.Errorf("created %s, %+v", path, stat)
		}
		path, _, err = c.CreateTTL(ctx, "/seq-", nil, zk.PersistentSequential, time.Millisecond)
		must(t, err)
		if path != "/seq-0000000001" {
			t.Errorf("created %s", path)
		}
		results, err := c.Multi(ctx, zk.CreateTTLOp("/multi-", nil, zk.PersistentSequential, time.Hour), zk.CheckOp("/ttl", 0))
		must(t, err)
		if results[0].Path != "/multi-0000000002" || results[0].Stat.Czxid == 0 {
			t.Errorf("in a transaction: %+v", results[0])
		}
		results, err = c.Pipeline(ctx, zk.CreateTTLOp("/piped", nil, zk.Persistent, time.Hour), zk.GetOp("/piped"))
		must(t, err)
		if results[0].Path != "/piped" || results[0].Stat != results[1].Stat {
			t.Errorf("in a pipeline: %+v", results)
		}
	})
}

func TestClientChangesACLs(t *testing.T) {
	onApache(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		_, _, err := c.Create(ctx, "/a", []byte("secret"), zk.Persistent)
		must(t, err)
		acl, stat, err := c.GetACL(ctx, "/a")
		must(t, err)
		all := zk.ACL{Perms: zkproto.PermAll, Scheme: "world", ID: "anyone"}
		if !slices.Equal(acl, []zk.ACL{all}) || stat.Aversion != 0 {
			t.Errorf("ACL %+v, version %d", acl, stat.Aversion)
		}
		_, err = c.SetACL(ctx, "/a", nil, zk.AnyVersion)
		wants(t, "empty ACL", err, zk.ErrInvalidACL)
		mine := zk.ACL{Perms: zkproto.PermAdmin, Scheme: "world", ID: "anyone"}
		_, err = c.SetACL(ctx, "/a", []zk.ACL{mine}, 7)
		wants(t, "wrong version", err, zk.ErrBadVersion)
		stat, err = c.SetACL(ctx, "/a", []zk.ACL{mine}, 0)
		must(t, err)
		if stat.Aversion != 1 {
			t.Errorf("version %d after a change", stat.Aversion)
		}
		_, _, err = c.Get(ctx, "/a")
		wants(t, "get without permission", err, zk.ErrNoAuth)
		acl, _, err = c.GetACL(ctx, "/a")
		must(t, err)
		if !slices.Equal(acl, []zk.ACL{mine}) {
			t.Errorf("ACL %+v", acl)
		}
		_, _, err = c.GetACL(ctx, "/none")
		wants(t, "ACL of nothing", err, zk.ErrNoNode)
	})
}

func TestClientReadsManyNodesInOneRequest(t *testing.T) {
	onApache(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		_, created, err := c.Create(ctx, "/m", []byte("data"), zk.Persistent)
		must(t, err)
		_, _, err = c.Create(ctx, "/m/child", nil, zk.Ephemeral)
		must(t, err)
		results, err := c.MultiRead(ctx, zk.GetOp("/m"), zk.GetOp("/none"), zk.ChildrenOp("/m"), zk.GetOp("/m/child"))
		wants(t, "multi-read", err, zk.ErrNoNode)
		if len(results) != 4 {
			t.Fatalf("%d results", len(results))
		}
		if string(results[0].Data) != "data" || results[0].Stat.Czxid != created.Czxid || results[0].Err != nil {
			t.Errorf("get: %+v", results[0])
		}
		wants(t, "get of nothing", results[1].Err, zk.ErrNoNode)
		if !slices.Equal(results[2].Children, []string{"child"}) || results[2].Err != nil {
			t.Errorf("children: %+v", results[2])
		}
		if results[3].Data != nil || results[3].Err != nil {
			t.Errorf("null data: %+v", results[3])
		}
		results, err = c.MultiRead(ctx)
		if len(results) != 0 || err != nil {
			t.Errorf("no reads: %v, %v", results, err)
		}
	})
}

func TestClientAsksAboutItself(t *testing.T) {
	onApache(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		infos, err := c.WhoAmI(ctx)
		must(t, err)
		// One of the servers also knows its clients by certificate and password.
		if want := (zk.ClientInfo{Scheme: "ip", User: "127.0.0.1"}); !slices.Contains(infos, want) {
			t.Errorf("who am I: %+v; want %+v among them", infos, want)
		}
		for _, path := range []string{"/dir", "/dir/sub"} {
			_, _, err := c.Create(ctx, path, nil, zk.Persistent)
			must(t, err)
		}
		for _, path := range []string{"/e", "/dir/e", "/dir/sub/e", "/dir-e"} {
			_, _, err := c.Create(ctx, path, nil, zk.Ephemeral)
			must(t, err)
		}
		for prefix, want := range map[string][]string{
			"/":     {"/dir-e", "/dir/e", "/dir/sub/e", "/e"},
			"/dir":  {"/dir-e", "/dir/e", "/dir/sub/e"},
			"/dir/": {"/dir/e", "/dir/sub/e"},
			"/x":    nil,
		} {
			got, err := c.Ephemerals(ctx, prefix)
			must(t, err)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("ephemerals %s: %q; want %q", prefix, got, want)
			}
		}
		for path, want := range map[string]int{"/": 6, "/dir": 3, "/e": 0} {
			got, err := c.AllChildrenNumber(ctx, path)
			must(t, err)
			if got != want {
				t.Errorf("%d nodes below %s; want %d", got, path, want)
			}
		}
		_, err = c.AllChildrenNumber(ctx, "/none")
		wants(t, "number of children of nothing", err, zk.ErrNoNode)
	})
}

func TestClientReadsTheConfigurationOfTheEnsemble(t *testing.T) {
	onApache(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		e, stat, w, err := c.ConfigW(ctx)
		must(t, err)
		silent(t, w)
		w.Stop()
		alone := !strings.HasSuffix(t.Name(), "ensemble")
		switch {
		case alone && len(e.Members) != 0, !alone && len(e.Members) != 3:
			t.Errorf("%d members", len(e.Members))
		}
		for i, m := range e.Members {
			if m.ID != int64(i) || m.Observer || !strings.HasPrefix(m.Peers, "127.0.0.1:") || strings.Count(m.Peers, ":") != 2 {
				t.Errorf("member %+v", m)
			}
		}
		again, stat2, err := c.Config(ctx)
		must(t, err)
		if stat2 != stat || fmt.Sprint(again) != fmt.Sprint(e) {
			t.Errorf("without a watch: %+v; with one: %+v", again, e)
		}
		_, _, err = c.Reconfig(ctx, zk.Reconfiguration{Leave: []int64{2}}, zk.AnyVersion)
		wants(t, "reconfig where it is disabled", err, zk.ErrReconfigDisabled)
		if _, _, err := c.Config(ctx); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}
