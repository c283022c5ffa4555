//go:build unix

package interop

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"time"

	"holdfast/zk"
)

// drivers are the loops of the fault test. Each function prepares something before there are
// faults, and returns one round.
var drivers = map[string]func(*driver) (func(n int) error, error){
	"create and delete": driveNodes,
	"sequences":         driveSequence,
	"versions":          driveVersions,
	"transactions":      driveTransactions,
	"pipelines":         drivePipelines,
	"reads":             driveReads,
	"one-shot watches":  driveWatches,
	"mirror":            driveMirror,
}

// read repeats a read until there is an answer.
func (d *driver) read(f func() error) error {
	for {
		err := f()
		if zk.SafeToRetry(err) {
			continue // the client waits for a connection by itself
		}
		return err
	}
}

// write does something that must happen exactly once. If the answer was lost, done finds out.
func (d *driver) write(f func() error, done func() (bool, error)) error {
	for {
		err := f()
		if zk.SafeToRetry(err) {
			continue
		}
		if !zk.MayHaveHappened(err) || !errors.Is(err, zk.ErrConnectionLoss) {
			return err
		}
		// A write committed in this session comes after everything that it sent before. What
		// has not been executed by then never will be. A sync is not enough: a deposed leader
		// that does not know it answers a sync, too.
		for {
			_, err := d.c.Set(d.ctx, d.dir, nil, zk.AnyVersion)
			if err == nil {
				break
			}
			if !errors.Is(err, zk.ErrConnectionLoss) {
				return err
			}
		}
		happened := false
		err = d.read(func() (err error) { happened, err = done(); return err })
		if err != nil || happened {
			return err
		}
	}
}

// acl returns the ACL of the nodes.
func (d *driver) acl() []zk.ACL {
	if d.mine != nil {
		return d.mine
	}
	return openACL
}

// begin makes the driver's directory.
func (d *driver) begin() error {
	_, _, err := d.c.Create(d.ctx, d.dir, nil, zk.Persistent, d.mine...)
	return err
}

func (d *driver) exists(path string) func() (bool, error) {
	return func() (bool, error) { _, is, err := d.c.Exists(d.ctx, path); return is, err }
}

func (d *driver) create(path string, mode zk.Mode) error {
	return d.write(func() error { _, _, err := d.c.Create(d.ctx, path, nil, mode, d.mine...); return err }, d.exists(path))
}

func (d *driver) delete(path string) error {
	return d.write(func() error { return d.c.Delete(d.ctx, path, 0) },
		func() (bool, error) { _, is, err := d.c.Exists(d.ctx, path); return !is, err })
}

func (d *driver) children(dir string) (names []string, err error) {
	err = d.read(func() (err error) { names, _, err = d.c.Children(d.ctx, dir); return err })
	slices.Sort(names)
	return names, err
}

// driveNodes creates a node in every mode without a number, and removes the one before.
func driveNodes(d *driver) (func(n int) error, error) {
	return func(n int) error {
		node := func(n int) string { return fmt.Sprintf("%s/n%d", d.dir, n) }
		var err error
		switch n % 4 {
		case 0:
			err = d.create(node(n), zk.Persistent)
		case 1:
			err = d.create(node(n), zk.Ephemeral)
		case 2:
			err = d.create(node(n), zk.Container)
		case 3:
			err = d.write(func() error {
				_, _, err := d.c.CreateTTL(d.ctx, node(n), nil, zk.Persistent, time.Hour, d.mine...)
				return err
			}, d.exists(node(n)))
		}
		if err == nil && n > 0 {
			err = d.delete(node(n - 1))
		}
		if err != nil {
			return err
		}
		names, err := d.children(d.dir)
		if err == nil && !slices.Equal(names, []string{path.Base(node(n))}) {
			err = fmt.Errorf("children %q", names)
		}
		return err
	}, d.begin()
}

// driveSequence creates one node after the other; none is duplicated, none is lost.
func driveSequence(d *driver) (func(n int) error, error) {
	last := ""
	return func(n int) error {
		mode := zk.PersistentSequential
		if n%2 == 1 {
			mode = zk.EphemeralSequential
		}
		created := ""
		err := d.write(func() (err error) {
			created, _, err = d.c.Create(d.ctx, d.dir+"/s-", nil, mode, d.mine...)
			return err
		}, func() (bool, error) {
			names, _, err := d.c.Children(d.ctx, d.dir)
			for _, name := range names {
				if p := d.dir + "/" + name; p > last {
					created = p
				}
			}
			return created != "", err
		})
		if err != nil {
			return err
		}
		if created <= last {
			return fmt.Errorf("%s after %s", created, last)
		}
		if last != "" {
			if err := d.delete(last); err != nil {
				return err
			}
		}
		last = created
		names, err := d.children(d.dir)
		if err == nil && !slices.Equal(names, []string{path.Base(created)}) {
			err = fmt.Errorf("children %q; want %s alone", names, created)
		}
		return err
	}, d.begin()
}

// driveVersions changes data and ACL by version: each change counts once.
func driveVersions(d *driver) (func(n int) error, error) {
	node := d.dir + "/n"
	return func(n int) error {
		version := int32(n)
		stat := func() (s zk.Stat, err error) { _, s, err = d.c.Get(d.ctx, node); return s, err }
		err := d.write(func() error { _, err := d.c.Set(d.ctx, node, []byte(strconv.Itoa(n)), version); return err },
			func() (bool, error) { s, err := stat(); return s.Version == version+1, err })
		if err != nil {
			return err
		}
		err = d.write(func() error { _, err := d.c.SetACL(d.ctx, node, d.acl(), version); return err },
			func() (bool, error) { s, err := stat(); return s.Aversion == version+1, err })
		if err != nil {
			return err
		}
		return d.read(func() error {
			data, s, err := d.c.Get(d.ctx, node)
			if err == nil && (string(data) != strconv.Itoa(n) || s.Version != version+1 || s.Aversion != version+1) {
				err = fmt.Errorf("data %q, %+v after %d changes", data, s, n+1)
			}
			return err
		})
	}, errors.Join(d.begin(), d.create(node, zk.Persistent))
}

// driveTransactions moves a mark from node to node and counts. No reader sees half of it.
func driveTransactions(d *driver) (func(n int) error, error) {
	count, mark := d.dir+"/count", func(n int) string { return fmt.Sprintf("%s/mark%d", d.dir, n) }
	return func(n int) error {
		err := d.write(func() error {
			_, err := d.c.Multi(d.ctx, zk.CheckOp(count, int32(n)), zk.SetOp(count, []byte(strconv.Itoa(n)), int32(n)),
				zk.DeleteOp(mark(n), 0), zk.CreateOp(mark(n+1), nil, zk.Ephemeral, d.mine...))
			return err
		}, d.exists(mark(n+1)))
		if err != nil {
			return err
		}
		return d.read(func() error {
			results, err := d.c.MultiRead(d.ctx, zk.GetOp(count), zk.ChildrenOp(d.dir))
			if err != nil {
				return err
			}
			names := slices.Sorted(slices.Values(results[1].Children))
			if data := string(results[0].Data); data != strconv.Itoa(n) || !slices.Equal(names, []string{"count", path.Base(mark(n + 1))}) {
				return fmt.Errorf("count %s, nodes %q", data, names)
			}
			return nil
		})
	}, errors.Join(d.begin(), d.create(count, zk.Persistent), d.create(mark(0), zk.Ephemeral))
}

// drivePipelines sends several writes at once and finds out the outcome of each.
func drivePipelines(d *driver) (func(n int) error, error) {
	return func(n int) error {
		const each = 5
		var ops []zk.Op
		node := func(i int) string { return fmt.Sprintf("%s/n%d-%d", d.dir, n, i) }
		for i := range each {
			ops = append(ops, zk.CreateOp(node(i), nil, zk.Ephemeral, d.mine...))
		}
		results, _ := d.c.Pipeline(d.ctx, append(ops, zk.ChildrenOp(d.dir))...)
		if len(results) != each+1 {
			return fmt.Errorf("%d results", len(results))
		}
		done := 0 // that were answered
		for i, r := range results[:each] {
			answer, first := r.Err, true
			if answer == nil {
				done++
			}
			err := d.write(func() error {
				if first {
					first = false
					return answer
				}
				_, _, err := d.c.Create(d.ctx, node(i), nil, zk.Ephemeral, d.mine...)
				return err
			}, d.exists(node(i)))
			if err != nil {
				return err
			}
		}
		// The connection can be lost in the middle, and the list sent on the next one.
		if err := results[each].Err; err == nil && (len(results[each].Children) < done || len(results[each].Children) > each) {
			return fmt.Errorf("children %q, and %d creates were answered", results[each].Children, done)
		} else if err != nil && !zk.SafeToRetry(err) {
			return err
		}
		names, err := d.children(d.dir)
		if err != nil || len(names) != each {
			return fmt.Errorf("children %q, %v", names, err)
		}
		for i := range each {
			if err := d.delete(node(i)); err != nil {
				return err
			}
		}
		return nil
	}, d.begin()
}
