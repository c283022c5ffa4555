//go:build unix

package interop

import (
	"errors"
	"fmt"
	"slices"

	"holdfast/zk"
	"holdfast/zk/admin"
)

// driveReads reads data that nobody changes, in every way there is.
func driveReads(d *driver) (func(n int) error, error) {
	node := d.dir + "/e"
	err := errors.Join(d.begin(), d.create(node, zk.Ephemeral))
	_, want, err2 := d.c.Get(d.ctx, node)
	wantACL, wantInfos := openACL, []admin.ClientInfo{{Scheme: "ip", User: "127.0.0.1"}}
	if d.mine != nil {
		wantACL = []zk.ACL{acl("digest", digestID("bob:"+planted))}
		wantInfos = append(wantInfos, admin.ClientInfo{Scheme: "digest", User: "bob"})
	}
	what := func(ok bool, format string, args ...any) error {
		if ok {
			return nil
		}
		return fmt.Errorf(format, args...)
	}
	reads := []func() error{
		func() error {
			_, s, err := d.c.Get(d.ctx, node)
			return errors.Join(err, what(err != nil || s == want && s.EphemeralOwner == d.s.ID(), "get: %+v", s))
		},
		func() error {
			s, is, err := d.c.Exists(d.ctx, node)
			return errors.Join(err, what(err != nil || is && s == want, "exists: %+v", s))
		},
		func() error {
			names, _, err := d.c.Children(d.ctx, d.dir)
			return errors.Join(err, what(err != nil || slices.Equal(names, []string{"e"}), "children: %q", names))
		},
		func() error {
			acl, _, err := d.c.GetACL(d.ctx, node)
			return errors.Join(err, what(err != nil || slices.Equal(acl, wantACL), "ACL: %+v", acl))
		},
		func() error {
			paths, err := d.c.Ephemerals(d.ctx, "/")
			return errors.Join(err, what(err != nil || slices.Equal(paths, []string{node}), "ephemerals: %q", paths))
		},
		func() error {
			n, err := admin.AllChildrenNumber(d.ctx, d.c, d.dir)
			return errors.Join(err, what(err != nil || n == 1, "%d nodes", n))
		},
		func() error {
			infos, err := admin.WhoAmI(d.ctx, d.c)
			return errors.Join(err, what(err != nil || sameSet(infos, wantInfos), "who am I: %+v", infos))
		},
		func() error {
			e, _, err := admin.Config(d.ctx, d.c)
			return errors.Join(err, what(err != nil || len(e.Members) == d.members, "configuration: %+v", e))
		},
		func() error { return d.c.Sync(d.ctx, node) },
		func() error {
			results, err := d.c.MultiRead(d.ctx, zk.GetOp(node), zk.ChildrenOp(d.dir))
			return errors.Join(err, what(err != nil || results[0].Stat == want && slices.Equal(results[1].Children, []string{"e"}), "multi-read: %+v", results))
		},
	}
	return func(int) error {
		for _, f := range reads {
			if err := d.read(f); err != nil {
				return err
			}
		}
		return nil
	}, errors.Join(err, err2)
}

// event waits for the event of w, and expects this one.
func (d *driver) event(w *zk.Watch, want zk.EventType) error {
	select {
	case e := <-w.C:
		if e.Type != want || e.Err != nil {
			return fmt.Errorf("event %+v; want %v", e, want)
		}
		return nil
	case <-d.ctx.Done():
		return fmt.Errorf("no event; want %v", want)
	}
}

// driveWatches sets one watch of each kind and changes what is watched. Each watch reports the
// change, even if its own connection or the change's broke meanwhile.
func driveWatches(d *driver) (func(n int) error, error) {
	return func(n int) error {
		node := fmt.Sprintf("%s/n%d", d.dir, n)
		var w *zk.Watch
		err := d.read(func() (err error) { _, _, w, err = d.c.ExistsW(d.ctx, node); return err })
		if err == nil {
			err = d.create(node, zk.Persistent)
		}
		if err == nil {
			err = d.event(w, zk.EventNodeCreated)
		}
		if err != nil {
			return fmt.Errorf("watch for the creation: %w", err)
		}
		var children *zk.Watch
		err = errors.Join(
			d.read(func() (err error) { _, _, w, err = d.c.GetW(d.ctx, node); return err }),
			d.read(func() (err error) { _, _, children, err = d.c.ChildrenW(d.ctx, node); return err }))
		if err == nil {
			err = d.create(node+"/c", zk.Persistent)
		}
		if err == nil {
			err = d.event(children, zk.EventNodeChildrenChanged)
		}
		if err != nil {
			return fmt.Errorf("watch of the children: %w", err)
		}
		if err = d.delete(node + "/c"); err == nil {
			err = d.delete(node)
		}
		if err == nil {
			err = d.event(w, zk.EventNodeDeleted)
		}
		return err
	}, d.begin()
}

// driveMirror keeps a copy of a tree by a recursive watch. It reads the tree again when the
// watch says that it missed something.
func driveMirror(d *driver) (func(n int) error, error) {
	err := d.begin()
	w, err2 := d.c.AddWatch(d.ctx, d.dir, zk.WatchPersistentRecursive)
	copied := map[string]bool{}
	// until follows the watch until the copy has the node, or no longer has it.
	until := func(path string, want bool) error {
		for copied[path] != want {
			select {
			case e := <-w.C:
				switch {
				case errors.Is(e.Err, zk.ErrEventsMissed):
					names, err := d.children(d.dir)
					if err != nil {
						return err
					}
					clear(copied)
					for _, name := range names {
						copied[d.dir+"/"+name] = true
					}
				case e.Err != nil:
					return e.Err
				case e.Type == zk.EventNodeCreated:
					copied[e.Path] = true
				case e.Type == zk.EventNodeDeleted:
					delete(copied, e.Path)
				}
			case <-d.ctx.Done():
				return fmt.Errorf("the watch does not report %s: %t", path, want)
			}
		}
		return nil
	}
	return func(n int) error {
		node := fmt.Sprintf("%s/n%d", d.dir, n)
		if err := d.create(node, zk.Persistent); err != nil {
			return err
		}
		if err := until(node, true); err != nil {
			return err
		}
		if n%10 == 9 { // replaces the watch, perhaps while there is no connection
			w.Stop()
			err := d.read(func() (err error) { w, err = d.c.AddWatch(d.ctx, d.dir, zk.WatchPersistentRecursive); return err })
			if err != nil {
				return err
			}
		}
		if err := d.delete(node); err != nil {
			return err
		}
		if err := until(node, false); err != nil {
			return err
		}
		if len(copied) != 0 {
			return fmt.Errorf("the copy still has %v", copied)
		}
		return nil
	}, errors.Join(err, err2)
}
