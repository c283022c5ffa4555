//go:build unix

package interop

import (
	"context"
	"errors"
	"testing"

	"holdfast/zk"
)

// next waits for a watch's event and expects this one.
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

// silent checks that w has no event so far.
func silent(t *testing.T, w *zk.Watch) {
	t.Helper()
	select {
	case e := <-w.C:
		t.Errorf("unexpected event %+v", e)
	default:
	}
}

// tells waits for the next event of w and expects this one.
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

// skipMissed skips the events of w up to the one that says that some were missed.
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

// One-shot watches.
var watchCases = map[string]feature{
	"watches fire":              {watchesFire, v3_5},
	"watches of another's acts": {watchesFireForOthers, v3_5},
}

func watchesFire(x *exam) {
	w := x.existsW("/w", false)
	x.create("/w")
	// An event comes before the reply to any request sent after the change was seen.
	x.next(w, zk.EventNodeCreated, "/w")

	data, children := x.getW("/w"), x.childrenW("/w")
	x.create("/w/child")
	x.next(children, zk.EventNodeChildrenChanged, "/w")
	x.silent(data)
	x.set("/w")
	x.next(data, zk.EventNodeDataChanged, "/w")

	w, stopped := x.existsW("/w/child", true), x.getW("/w/child")
	stopped.Stop()
	x.delete("/w/child")
	x.next(w, zk.EventNodeDeleted, "/w/child")
	x.silent(stopped)

	_, _, gone, err := x.c.GetW(x.ctx, x.at("/none"))
	x.wants("get of nothing", err, zk.ErrNoNode)
	if gone != nil {
		x.Error("a get that failed left a watch")
	}
	_, _, gone, err = x.c.ChildrenW(x.ctx, x.at("/none"))
	x.wants("children of nothing", err, zk.ErrNoNode)
	if gone != nil {
		x.Error("a listing that failed left a watch")
	}

	// The deletion fires all of them; a new watch on the same node is independent.
	x.create("/d")
	data, children, w = x.getW("/d"), x.childrenW("/d"), x.existsW("/d", true)
	x.getW("/d").Stop()
	x.delete("/d")
	for _, w := range []*zk.Watch{data, children, w} {
		x.next(w, zk.EventNodeDeleted, "/d")
	}
}

// What this client reads after the event is not older than the event.
func watchesFireForOthers(x *exam) {
	other := x.by(x.dial())
	x.create("/n")
	other.catchUp()
	for i := range 20 {
		data, children := x.getW("/n"), x.childrenW("/n")
		other.set("/n")
		x.next(data, zk.EventNodeDataChanged, "/n")
		_, stat, err := x.c.Get(x.ctx, x.at("/n"))
		x.must(err)
		if stat.Version != int32(i+1) {
			x.Errorf("version %d after the event of version %d", stat.Version, i+1)
		}
		x.silent(children)
		_, _, err = other.c.Create(x.ctx, x.at("/n/c-"), nil, zk.EphemeralSequential, x.mine...)
		x.must(err)
		x.next(children, zk.EventNodeChildrenChanged, "/n")
		names, _, err := x.c.Children(x.ctx, x.at("/n"))
		x.must(err)
		if len(names) != i+1 {
			x.Errorf("%d children after the event of child %d", len(names), i+1)
		}
	}
}

// Persistent watches. Debian's 3.8.0 keeps one mode of watch per connection and path. The client
// hides that difference.
var persistentCases = map[string]feature{
	"persistent watches tell everything":     {persistentTellEverything, v3_6},
	"one-shot watches on a persistent one":   {func(x *exam) { watchesOfBothKinds(x, zk.WatchPersistent, true) }, v3_6},
	"a persistent watch on one-shot ones":    {func(x *exam) { watchesOfBothKinds(x, zk.WatchPersistent, false) }, v3_6},
	"one-shot watches on a recursive one":    {func(x *exam) { watchesOfBothKinds(x, zk.WatchPersistentRecursive, true) }, v3_6},
	"a recursive watch on one-shot ones":     {func(x *exam) { watchesOfBothKinds(x, zk.WatchPersistentRecursive, false) }, v3_6},
	"persistent watches of another's acts":   {persistentForOthers, v3_6},
	"a persistent watch has one mode a node": {oneModeANode, v3_6},
}

func persistentTellEverything(x *exam) {
	node, tree, root := x.watch("/a", zk.WatchPersistent), x.watch("/t", zk.WatchPersistentRecursive), x.watch("/", zk.WatchPersistentRecursive)
	for range 2 {
		x.create("/a")
		x.set("/a")
		x.create("/a/b")
		x.set("/a/b")
		x.delete("/a/b")
		x.delete("/a")
		x.tells(node, zk.EventNodeCreated, "/a")
		x.tells(node, zk.EventNodeDataChanged, "/a")
		x.tells(node, zk.EventNodeChildrenChanged, "/a")
		x.tells(node, zk.EventNodeChildrenChanged, "/a")
		x.tells(node, zk.EventNodeDeleted, "/a")
		x.quiet(node)
		x.quiet(tree)
		for _, e := range []struct {
			typ  zk.EventType
			path string
		}{
			{zk.EventNodeCreated, "/a"}, {zk.EventNodeDataChanged, "/a"}, {zk.EventNodeCreated, "/a/b"},
			{zk.EventNodeDataChanged, "/a/b"}, {zk.EventNodeDeleted, "/a/b"}, {zk.EventNodeDeleted, "/a"},
		} {
			x.tells(root, e.typ, e.path)
		}
		x.quiet(root)
	}
	for range 2 {
		for _, path := range []string{"/t", "/t/u", "/t/u/v"} {
			x.create(path)
			x.tells(tree, zk.EventNodeCreated, path)
		}
		x.set("/t/u/v")
		x.tells(tree, zk.EventNodeDataChanged, "/t/u/v")
		for _, path := range []string{"/t/u/v", "/t/u", "/t"} {
			x.delete(path)
			x.tells(tree, zk.EventNodeDeleted, path)
		}
		x.quiet(tree)
	}
}

func oneModeANode(x *exam) {
	tree := x.watch("/t", zk.WatchPersistentRecursive)
	_, err := x.c.AddWatch(x.ctx, x.at("/t"), zk.WatchPersistent)
	x.wants("another mode on the same node", err, zk.ErrBadArguments)
	tree.Stop()
	if _, open := <-tree.C; open {
		x.Error("C is open after Stop")
	}
	node := x.watch("/t", zk.WatchPersistent)
	x.create("/t")
	x.tells(node, zk.EventNodeCreated, "/t")
	x.create("/t/u")
	x.tells(node, zk.EventNodeChildrenChanged, "/t")
	x.quiet(node)
}

func persistentForOthers(x *exam) {
	other := x.by(x.dial())
	node, tree := x.watch("/t/u", zk.WatchPersistent), x.watch("/", zk.WatchPersistentRecursive)
	other.catchUp()
	other.create("/t")
	other.create("/t/u")
	for range 50 {
		other.set("/t/u")
	}
	x.tells(node, zk.EventNodeCreated, "/t/u")
	x.tells(tree, zk.EventNodeCreated, "/t")
	x.tells(tree, zk.EventNodeCreated, "/t/u")
	for range 50 {
		x.tells(node, zk.EventNodeDataChanged, "/t/u")
		x.tells(tree, zk.EventNodeDataChanged, "/t/u")
	}
	x.quiet(node)
	x.quiet(tree)
}

func watchesOfBothKinds(x *exam, mode zk.WatchMode, persistentFirst bool) {
	x.create("/n")
	var p *zk.PersistentWatch
	if persistentFirst {
		p = x.watch("/n", mode)
	}
	data, children := x.getW("/n"), x.childrenW("/n")
	if !persistentFirst {
		p = x.watch("/n", mode)
	}
	tellsOfChild := func(recursive zk.EventType) {
		x.Helper()
		if mode == zk.WatchPersistent {
			x.tells(p, zk.EventNodeChildrenChanged, "/n")
		} else {
			x.tells(p, recursive, "/n/c")
		}
	}
	for i := range 2 { // the second time, only the persistent watch is left
		x.create("/n/c")
		tellsOfChild(zk.EventNodeCreated)
		if i == 0 {
			x.next(children, zk.EventNodeChildrenChanged, "/n")
			x.silent(data)
		}
		x.set("/n")
		x.tells(p, zk.EventNodeDataChanged, "/n")
		if i == 0 {
			x.next(data, zk.EventNodeDataChanged, "/n")
		}
		x.delete("/n/c")
		tellsOfChild(zk.EventNodeDeleted)
		x.quiet(p)
	}

	// One-shot watches survive the end of the persistent one.
	data, children = x.getW("/n"), x.childrenW("/n")
	p.Stop()
	x.set("/n")
	x.next(data, zk.EventNodeDataChanged, "/n")
	x.silent(children)
	x.create("/n/c")
	x.next(children, zk.EventNodeChildrenChanged, "/n")

	// The persistent watch survives them, too.
	p = x.watch("/n", mode)
	data, children = x.getW("/n"), x.childrenW("/n")
	data.Stop()
	children.Stop()
	x.must(x.c.Sync(x.ctx, x.at("/"))) // the removals have been applied
	for range 2 {
		x.set("/n")
		x.tells(p, zk.EventNodeDataChanged, "/n")
	}
	x.silent(data)
	x.silent(children)
}
