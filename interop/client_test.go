//go:build unix

package interop

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/zk"
	"holdfast/zkproto"
)

// Our client, on every kind of server that it has to work with.

type server struct {
	name string
	url  func(testing.TB) string
}

var servers = []server{
	{"holdfast serve", func(t testing.TB) string { return oneHoldfast.get(t).URL() }},
	{"Apache ZooKeeper", func(t testing.TB) string { return oneZooKeeper.get(t).URL() }},
	{"Apache ensemble", func(t testing.TB) string { return ensemble.get(t).URL() }},
	{"Apache ZooKeeper with TLS, SASL and digest", func(t testing.TB) string { return oneDemanding.get(t).URL() }},
}

// onEveryServer runs test with a fresh chroot on each server.
func onEveryServer(t *testing.T, test func(ctx context.Context, t *testing.T, c *zk.Client)) {
	onServers(t, servers, test)
}

func onServers(t *testing.T, servers []server, test func(ctx context.Context, t *testing.T, c *zk.Client)) {
	chroot := "/" + t.Name()
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			c := dialURL(t, s.url(t)+chroot, func(cfg *zk.Config) { cfg.CreateChroot = true })
			ctx, cancel := context.WithTimeout(t.Context(), stepTime)
			defer cancel()
			test(ctx, t, c)
		})
	}
}

// wants fails the test unless err is the one wanted.
func wants(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v; want %v", what, err, want)
	}
}

// must fails the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestClientCreatesNodesOfEveryMode(t *testing.T) {
	onEveryServer(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		s, err := c.Session(ctx)
		must(t, err)
		lastSeq, lastZxid := "", int64(0)
		for _, mode := range []struct {
			mode       zk.Mode
			name       string
			sequential bool
			ephemeral  bool
		}{
			{zk.Persistent, "persistent", false, false},
			{zk.Ephemeral, "ephemeral", false, true},
			{zk.PersistentSequential, "persistent-sequential-", true, false},
			{zk.EphemeralSequential, "ephemeral-sequential-", true, true},
			{zk.Container, "container", false, false},
		} {
			data := []byte("data of " + mode.name)
			path, stat, err := c.Create(ctx, "/"+mode.name, data, mode.mode)
			must(t, err)
			pattern := `^/` + mode.name + `$`
			if mode.sequential {
				pattern = `^/` + mode.name + `\d{10}$`
				seq := path[len(path)-10:]
				if seq <= lastSeq {
					t.Errorf("%s comes after number %s", path, lastSeq)
				}
				lastSeq = seq
			}
			if !regexp.MustCompile(pattern).MatchString(path) {
				t.Errorf("created %s; want %s", path, pattern)
			}
			if stat.Czxid <= lastZxid {
				t.Errorf("czxid of %s is %#x; the node before had %#x", path, stat.Czxid, lastZxid)
			}
			lastZxid = stat.Czxid
			wantOwner := int64(0)
			if mode.ephemeral {
				wantOwner = s.ID()
			}
			got, read, err := c.Get(ctx, path)
			must(t, err)
			if string(got) != string(data) {
				t.Errorf("data of %s is %q; want %q", path, got, data)
			}
			if read.EphemeralOwner != wantOwner {
				t.Errorf("ephemeral owner of %s is %#x; want %#x", path, read.EphemeralOwner, wantOwner)
			}
			if read != stat {
				t.Errorf("stat of %s: create answered %+v, get %+v", path, stat, read)
			}
		}

		_, _, err = c.Create(ctx, "/persistent", nil, zk.Persistent)
		wants(t, "create again", err, zk.ErrNodeExists)
		wants(t, "create again", err, fs.ErrExist)
		_, _, err = c.Create(ctx, "/none/child", nil, zk.Persistent)
		wants(t, "create below nothing", err, zk.ErrNoNode)
		_, _, err = c.Create(ctx, "/ephemeral/child", nil, zk.Persistent)
		wants(t, "create below an ephemeral node", err, zk.ErrNoChildrenForEphemerals)
	})
}

func TestClientTellsNullDataFromEmpty(t *testing.T) {
	onEveryServer(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		for path, data := range map[string][]byte{"/null": nil, "/empty": {}} {
			_, _, err := c.Create(ctx, path, data, zk.Persistent)
			must(t, err)
			got, _, err := c.Get(ctx, path)
			must(t, err)
			if (got == nil) != (data == nil) || len(got) != 0 {
				t.Errorf("data of %s is %#v; want %#v", path, got, data)
			}
		}
	})
}

func TestClientSendsNothingThatTheServerWouldHangUpOn(t *testing.T) {
	chroot := "/" + t.Name()
	onEveryServer(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		s, err := c.Session(ctx)
		must(t, err)
		empty := zkproto.CreateRequest{Path: chroot + "/n", ACL: openACL}
		most := zkproto.MaxFrame - len((&zkproto.RequestHeader{}).Append(nil)) - len(empty.Append(nil))
		_, _, err = c.Create(ctx, "/n", make([]byte, most+1), zk.Persistent)
		wants(t, "create of one byte too many", err, zk.ErrTooLarge)
		_, stat, err := c.Create(ctx, "/n", make([]byte, most), zk.Persistent)
		must(t, err)
		if int(stat.DataLength) != most {
			t.Errorf("data length %d; want %d", stat.DataLength, most)
		}
		data, _, err := c.Get(ctx, "/n")
		must(t, err)
		if len(data) != most {
			t.Errorf("got %d bytes; want %d", len(data), most)
		}
		if now, err := c.Session(ctx); err != nil || now != s {
			t.Errorf("the session did not survive: %v", err)
		}
	})
}

func TestClientSetsAndDeletesByVersion(t *testing.T) {
	onEveryServer(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		_, _, err := c.Create(ctx, "/n", []byte("0"), zk.Persistent)
		must(t, err)
		stat, err := c.Set(ctx, "/n", []byte("one"), 0)
		must(t, err)
		if stat.Version != 1 || stat.DataLength != 3 || stat.Mzxid <= stat.Czxid {
			t.Errorf("stat after set: %+v", stat)
		}
		_, err = c.Set(ctx, "/n", nil, 0)
		wants(t, "set with an old version", err, zk.ErrBadVersion)
		_, err = c.Set(ctx, "/none", nil, zk.AnyVersion)
		wants(t, "set of nothing", err, zk.ErrNoNode)

		_, _, err = c.Create(ctx, "/n/child", nil, zk.Persistent)
		must(t, err)
		names, stat, err := c.Children(ctx, "/n")
		must(t, err)
		if !slices.Equal(names, []string{"child"}) || stat.NumChildren != 1 || stat.Cversion != 1 {
			t.Errorf("children %q, stat %+v", names, stat)
		}
		wants(t, "delete with children", c.Delete(ctx, "/n", zk.AnyVersion), zk.ErrNotEmpty)
		must(t, c.Delete(ctx, "/n/child", 0))
		wants(t, "delete with an old version", c.Delete(ctx, "/n", 0), zk.ErrBadVersion)
		must(t, c.Delete(ctx, "/n", 1))
		wants(t, "delete again", c.Delete(ctx, "/n", zk.AnyVersion), zk.ErrNoNode)
		_, _, err = c.Get(ctx, "/n")
		wants(t, "get", err, fs.ErrNotExist)
		_, exists, err := c.Exists(ctx, "/n")
		must(t, err)
		if exists {
			t.Error("/n is still there")
		}
		must(t, c.Sync(ctx, "/"))
	})
}

func TestClientMultiIsAllOrNothing(t *testing.T) {
	onEveryServer(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		results, err := c.Multi(ctx,
			zk.CreateOp("/m", []byte("1"), zk.Persistent),
			zk.CheckOp("/m", 0),
			zk.SetOp("/m", []byte("2"), 0),
			zk.CreateOp("/m/s-", nil, zk.EphemeralSequential),
			zk.CreateOp("/m/gone", nil, zk.Persistent),
			zk.DeleteOp("/m/gone", 0))
		must(t, err)
		if len(results) != 6 || results[0].Path != "/m" || results[2].Stat.Version != 1 || !strings.HasPrefix(results[3].Path, "/m/s-0") {
			t.Errorf("results %+v", results)
		}
		if a, b := results[0].Stat.Czxid, results[3].Stat.Czxid; a != b {
			t.Errorf("nodes of one transaction have czxids %#x and %#x", a, b)
		}

		results, err = c.Multi(ctx,
			zk.SetOp("/m", []byte("3"), 1),
			zk.CheckOp("/m", 7),
			zk.DeleteOp(results[3].Path, 0))
		wants(t, "multi with a failing check", err, zk.ErrBadVersion)
		if len(results) != 3 {
			t.Fatalf("results %+v", results)
		}
		wants(t, "the check", results[1].Err, zk.ErrBadVersion)
		wants(t, "behind the check", results[2].Err, zk.ErrNotTried)
		data, stat, err := c.Get(ctx, "/m")
		must(t, err)
		if string(data) != "2" || stat.Version != 1 || stat.NumChildren != 1 {
			t.Errorf("the refused transaction left data %q, stat %+v", data, stat)
		}
	})
}

func TestClientPipelineAnswersInOrder(t *testing.T) {
	onEveryServer(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		results, err := c.Pipeline(ctx,
			zk.CreateOp("/p", nil, zk.Persistent),
			zk.CreateOp("/p/s-", []byte("x"), zk.EphemeralSequential),
			zk.CreateOp("/p", nil, zk.Persistent),
			zk.ChildrenOp("/p"),
			zk.ExistsOp("/p"),
			zk.GetOp("/none"))
		wants(t, "the first error", err, zk.ErrNodeExists)
		if len(results) != 6 {
			t.Fatalf("%d results; want 6", len(results))
		}
		must(t, results[1].Err)
		wants(t, "create again", results[2].Err, zk.ErrNodeExists)
		if want := []string{strings.TrimPrefix(results[1].Path, "/p/")}; !slices.Equal(results[3].Children, want) {
			t.Errorf("children %q; want %q", results[3].Children, want)
		}
		if results[4].Stat.NumChildren != 1 {
			t.Errorf("stat %+v", results[4].Stat)
		}
		wants(t, "get of nothing", results[5].Err, zk.ErrNoNode)
	})
}

// next waits for a watch's event and wants it to be this one.
func next(ctx context.Context, t *testing.T, w *zk.Watch, want zk.EventType, path string) {
	t.Helper()
	select {
	case e := <-w.C:
		if e.Type != want || e.Path != path || e.Err != nil {
			t.Errorf("event %+v; want %v of %s", e, want, path)
		}
	case <-ctx.Done():
		t.Fatalf("no event; want %v of %s", want, path)
	}
}

// silent wants no event of w so far.
func silent(t *testing.T, w *zk.Watch) {
	t.Helper()
	select {
	case e := <-w.C:
		t.Errorf("unexpected event %+v", e)
	default:
	}
}

func TestClientWatchesFire(t *testing.T) {
	onEveryServer(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		_, exists, w, err := c.ExistsW(ctx, "/w")
		must(t, err)
		if exists {
			t.Fatal("/w is there already")
		}
		_, _, err = c.Create(ctx, "/w", nil, zk.Persistent)
		must(t, err)
		// An event comes before the reply to anything sent after the change was seen.
		next(ctx, t, w, zk.EventNodeCreated, "/w")

		_, _, data, err := c.GetW(ctx, "/w")
		must(t, err)
		_, _, children, err := c.ChildrenW(ctx, "/w")
		must(t, err)
		_, _, err = c.Create(ctx, "/w/child", nil, zk.Persistent)
		must(t, err)
		next(ctx, t, children, zk.EventNodeChildrenChanged, "/w")
		silent(t, data)
		_, err = c.Set(ctx, "/w", []byte("new"), 0)
		must(t, err)
		next(ctx, t, data, zk.EventNodeDataChanged, "/w")

		_, _, w, err = c.ExistsW(ctx, "/w/child")
		must(t, err)
		_, _, stopped, err := c.GetW(ctx, "/w/child")
		must(t, err)
		stopped.Stop()
		must(t, c.Delete(ctx, "/w/child", 0))
		next(ctx, t, w, zk.EventNodeDeleted, "/w/child")
		silent(t, stopped)

		_, _, gone, err := c.GetW(ctx, "/none")
		wants(t, "get of nothing", err, zk.ErrNoNode)
		if gone != nil {
			t.Error("a get that failed left a watch")
		}
	})
}

func TestClosingAClientRemovesItsEphemeralNodesAtOnce(t *testing.T) {
	for _, s := range servers {
		t.Run(s.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stepTime)
			defer cancel()
			watcher, owner := dialURL(t, s.url(t)), dialURL(t, s.url(t))
			path := fmt.Sprintf("/%s", t.Name()[:len("TestClosingAClient")])
			_, _, err := owner.Create(ctx, path, nil, zk.Ephemeral)
			must(t, err)
			must(t, watcher.Sync(ctx, path)) // it may be behind another server
			_, exists, w, err := watcher.ExistsW(ctx, path)
			must(t, err)
			if !exists {
				t.Fatalf("%s is not there", path)
			}
			must(t, owner.Close())
			next(ctx, t, w, zk.EventNodeDeleted, path)
			_, _, err = owner.Get(ctx, path)
			wants(t, "get with a closed client", err, zk.ErrClosed)
		})
	}
}
