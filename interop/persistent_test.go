//go:build unix

package interop

import (
	"context"
	"errors"
	"testing"

	"holdfast/zk"
)

// Persistent watches on Apache's servers. Debian's 3.8.0 keeps one mode of watch per
// connection and path.

// tells waits for the next event of w and wants it to be this one.
func tells(ctx context.Context, t *testing.T, w *zk.PersistentWatch, want zk.EventType, path string) {
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

func quiet(t *testing.T, w *zk.PersistentWatch) {
	t.Helper()
	select {
	case e := <-w.C:
		t.Errorf("unexpected event %+v", e)
	default:
	}
}

// skipMissed passes over what w tells until it tells that it missed something.
func skipMissed(ctx context.Context, t *testing.T, w *zk.PersistentWatch) {
	t.Helper()
	for {
		select {
		case e := <-w.C:
			if errors.Is(e.Err, zk.ErrEventsMissed) {
				return
			}
		case <-ctx.Done():
			t.Fatal("does not tell that it missed something")
		}
	}
}

type doing struct {
	ctx context.Context
	t   *testing.T
	c   *zk.Client
}

func (d doing) create(path string) {
	d.t.Helper()
	_, _, err := d.c.Create(d.ctx, path, nil, zk.Persistent)
	must(d.t, err)
}

func (d doing) set(path string) {
	d.t.Helper()
	_, err := d.c.Set(d.ctx, path, []byte("new"), zk.AnyVersion)
	must(d.t, err)
}

func (d doing) delete(path string) {
	d.t.Helper()
	must(d.t, d.c.Delete(d.ctx, path, zk.AnyVersion))
}

func (d doing) watch(path string, mode zk.WatchMode) *zk.PersistentWatch {
	d.t.Helper()
	w, err := d.c.AddWatch(d.ctx, path, mode)
	must(d.t, err)
	return w
}

func TestPersistentWatchesTellEverything(t *testing.T) {
	onApache(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
		d := doing{ctx, t, c}
		node, tree, root := d.watch("/a", zk.WatchPersistent), d.watch("/t", zk.WatchPersistentRecursive), d.watch("/", zk.WatchPersistentRecursive)
		for range 2 {
			d.create("/a")
			d.set("/a")
			d.create("/a/b")
			d.set("/a/b")
			d.delete("/a/b")
			d.delete("/a")
			tells(ctx, t, node, zk.EventNodeCreated, "/a")
			tells(ctx, t, node, zk.EventNodeDataChanged, "/a")
			tells(ctx, t, node, zk.EventNodeChildrenChanged, "/a")
			tells(ctx, t, node, zk.EventNodeChildrenChanged, "/a")
			tells(ctx, t, node, zk.EventNodeDeleted, "/a")
			quiet(t, node)
			quiet(t, tree)
			for _, e := range []struct {
				typ  zk.EventType
				path string
			}{
				{zk.EventNodeCreated, "/a"}, {zk.EventNodeDataChanged, "/a"}, {zk.EventNodeCreated, "/a/b"},
				{zk.EventNodeDataChanged, "/a/b"}, {zk.EventNodeDeleted, "/a/b"}, {zk.EventNodeDeleted, "/a"},
			} {
				tells(ctx, t, root, e.typ, e.path)
			}
			quiet(t, root)
		}
		for range 2 {
			d.create("/t")
			d.create("/t/u")
			d.create("/t/u/v")
			d.set("/t/u/v")
			for _, path := range []string{"/t", "/t/u", "/t/u/v"} {
				tells(ctx, t, tree, zk.EventNodeCreated, path)
			}
			tells(ctx, t, tree, zk.EventNodeDataChanged, "/t/u/v")
			for _, path := range []string{"/t/u/v", "/t/u", "/t"} {
				d.delete(path)
				tells(ctx, t, tree, zk.EventNodeDeleted, path)
			}
			quiet(t, tree)
		}
		_, err := c.AddWatch(ctx, "/t", zk.WatchPersistent)
		wants(t, "another mode on the same node", err, zk.ErrBadArguments)
		tree.Stop()
		if _, open := <-tree.C; open {
			t.Error("C is open after Stop")
		}
		node2 := d.watch("/t", zk.WatchPersistent)
		d.create("/t")
		tells(ctx, t, node2, zk.EventNodeCreated, "/t")
	})
}

func TestOneShotWatchesAndPersistentOnesDoNotDisturbEachOther(t *testing.T) {
	for _, mode := range []zk.WatchMode{zk.WatchPersistent, zk.WatchPersistentRecursive} {
		for _, first := range []string{"persistent first", "one-shot first"} {
			name := map[zk.WatchMode]string{zk.WatchPersistent: "persistent ", zk.WatchPersistentRecursive: "recursive "}[mode] + first
			t.Run(name, func(t *testing.T) {
				onApache(t, func(ctx context.Context, t *testing.T, c *zk.Client) {
					d := doing{ctx, t, c}
					d.create("/n")
					var p *zk.PersistentWatch
					if first == "persistent first" {
						p = d.watch("/n", mode)
					}
					_, _, data, err := c.GetW(ctx, "/n")
					must(t, err)
					_, _, children, err := c.ChildrenW(ctx, "/n")
					must(t, err)
					if first != "persistent first" {
						p = d.watch("/n", mode)
					}
					for i := range 2 { // the second time, only the persistent one is left
						d.create("/n/c")
						if mode == zk.WatchPersistent {
							tells(ctx, t, p, zk.EventNodeChildrenChanged, "/n")
						} else {
							tells(ctx, t, p, zk.EventNodeCreated, "/n/c")
						}
						if i == 0 {
							next(ctx, t, children, zk.EventNodeChildrenChanged, "/n")
							silent(t, data)
						}
						d.set("/n")
						tells(ctx, t, p, zk.EventNodeDataChanged, "/n")
						if i == 0 {
							next(ctx, t, data, zk.EventNodeDataChanged, "/n")
						}
						d.delete("/n/c")
						if mode == zk.WatchPersistent {
							tells(ctx, t, p, zk.EventNodeChildrenChanged, "/n")
						} else {
							tells(ctx, t, p, zk.EventNodeDeleted, "/n/c")
						}
						quiet(t, p)
					}

					// One-shot watches outlive the persistent one.
					_, _, data, err = c.GetW(ctx, "/n")
					must(t, err)
					_, _, children, err = c.ChildrenW(ctx, "/n")
					must(t, err)
					p.Stop()
					d.set("/n")
					next(ctx, t, data, zk.EventNodeDataChanged, "/n")
					silent(t, children)
					d.create("/n/c")
					next(ctx, t, children, zk.EventNodeChildrenChanged, "/n")

					// And the persistent one outlives them.
					p = d.watch("/n", mode)
					_, _, data, err = c.GetW(ctx, "/n")
					must(t, err)
					_, _, children, err = c.ChildrenW(ctx, "/n")
					must(t, err)
					data.Stop()
					children.Stop()
					must(t, c.Sync(ctx, "/")) // the removals are through
					d.set("/n")
					tells(ctx, t, p, zk.EventNodeDataChanged, "/n")
					d.set("/n")
					tells(ctx, t, p, zk.EventNodeDataChanged, "/n")
					silent(t, data)
				})
			})
		}
	}
}

func TestPersistentWatchesSurviveAReconnectAndSaySo(t *testing.T) {
	for _, s := range servers[1:] {
		t.Run(s.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stepTime)
			defer cancel()
			g := newGate()
			url := s.url(t) + "/" + t.Name()
			c := dialURL(t, url, func(cfg *zk.Config) { cfg.CreateChroot, cfg.Dial = true, g.dial })
			helper := dialURL(t, url)
			d, away := doing{ctx, t, c}, doing{ctx, t, helper}
			for _, path := range []string{"/n", "/t", "/t/u"} {
				d.create(path)
			}
			node, tree, stopped := d.watch("/n", zk.WatchPersistent), d.watch("/t", zk.WatchPersistentRecursive), d.watch("/n", zk.WatchPersistent)
			stopped.Stop()
			_, _, data, err := c.GetW(ctx, "/n")
			must(t, err)
			_, _, treeData, err := c.GetW(ctx, "/t")
			must(t, err)
			_, _, children, err := c.ChildrenW(ctx, "/t")
			must(t, err)

			g.let(nowhere)
			g.cut()
			away.set("/n")
			away.create("/t/while-away")
			must(t, helper.Sync(ctx, "/"))
			g.let(anywhere)

			skipMissed(ctx, t, node)
			skipMissed(ctx, t, tree)
			next(ctx, t, data, zk.EventNodeDataChanged, "/n")
			next(ctx, t, children, zk.EventNodeChildrenChanged, "/t")
			silent(t, treeData)
			for range 2 {
				d.set("/n")
				tells(ctx, t, node, zk.EventNodeDataChanged, "/n")
				d.set("/t/u")
				tells(ctx, t, tree, zk.EventNodeDataChanged, "/t/u")
			}
			d.set("/t")
			next(ctx, t, treeData, zk.EventNodeDataChanged, "/t")
			tells(ctx, t, tree, zk.EventNodeDataChanged, "/t")
			quiet(t, node)

			must(t, c.Close())
			for _, w := range []*zk.PersistentWatch{node, tree} {
				if e := <-w.C; !errors.Is(e.Err, zk.ErrClosed) {
					t.Errorf("at the end: %+v", e)
				}
				if e, open := <-w.C; open {
					t.Errorf("after the end: %+v", e)
				}
			}
		})
	}
}
