//go:build unix

package interop

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"holdfast/zk"
	"holdfast/zk/admin"
)

// Each operation loses its reply, or itself.
func losesOnTheWay(x *exam, what direction) {
	x.create("/seen")
	for name, o := range map[string]struct {
		do   func(path string) error
		done func(path string) bool // it was executed
	}{
		"create": {
			func(path string) error {
				_, _, err := x.c.Create(x.ctx, path+"/c", nil, zk.Persistent, x.mine...)
				return err
			},
			func(path string) bool { return x.stat(path).NumChildren == 1 },
		},
		"set": {
			func(path string) error { _, err := x.c.Set(x.ctx, path, nil, 0); return err },
			func(path string) bool { return x.stat(path).Version == 1 },
		},
		"multi": {
			func(path string) error {
				_, err := x.c.Multi(x.ctx, zk.SetOp(path, nil, 0), zk.CreateOp(path+"/c", nil, zk.Persistent, x.mine...))
				return err
			},
			func(path string) bool { s := x.stat(path); return s.Version == 1 && s.NumChildren == 1 },
		},
		"pipeline": {
			func(path string) error {
				_, err := x.c.Pipeline(x.ctx, zk.SetOp(path, nil, 0), zk.GetOp(path))
				return err
			},
			func(path string) bool { return x.stat(path).Version == 1 },
		},
		"set ACL": {
			func(path string) error {
				_, err := x.c.SetACL(x.ctx, path, append([]zk.ACL{acl("ip", "127.0.0.1")}, x.mine...), 0)
				return err
			},
			func(path string) bool { return x.stat(path).Aversion == 1 },
		},
		"get": {func(path string) error { _, _, err := x.c.Get(x.ctx, path); return err }, nil},
		"children": {
			func(path string) error { _, _, err := x.c.Children(x.ctx, path); return err }, nil,
		},
		"who am I": {func(string) error { _, err := admin.WhoAmI(x.ctx, x.c); return err }, nil},
	} {
		for try := 0; ; try++ {
			node := fmt.Sprintf("/%s-%d", strings.ReplaceAll(name, " ", "-"), try)
			x.create(node)
			x.gate.loseNext(what)
			err := o.do(x.at(node))
			if err == nil || !x.gate.hasLost() {
				x.gate.loseNext(nothing)
				continue // a ping of the client was lost instead
			}
			x.wants(name, err, zk.ErrConnectionLoss)
			reads := o.done == nil
			if !zk.MayHaveHappened(err) || zk.SafeToRetry(err) != reads {
				x.Errorf("%v: may have happened %t, safe to retry %t", err, zk.MayHaveHappened(err), zk.SafeToRetry(err))
			}
			if reads {
				x.must(o.do(x.at(node)))
				break
			}
			x.catchUp()
			if done := o.done(x.at(node)); done != (what == reply) {
				x.Errorf("%s: executed: %t", name, done)
			}
			break
		}
	}
}

func (x *exam) stat(path string) zk.Stat {
	x.Helper()
	stat, exists, err := x.c.Exists(x.ctx, path)
	x.must(err)
	if !exists {
		x.Fatalf("%s does not exist", path)
	}
	return stat
}

// breakConnection ends the client's connection and prevents the next one. It returns when the
// client knows.
func (x *exam) breakConnection() {
	x.Helper()
	x.gate.let(nowhere)
	x.gate.cut()
	select {
	case <-x.broke:
	case <-x.ctx.Done():
		x.Fatal("the client does not notice that its connection is gone")
	}
}

func sendsLater(x *exam) {
	s := x.session(x.client)
	x.breakConnection()
	given, giveUp := context.WithCancel(x.ctx)
	lost := make(chan error)
	go func() {
		_, _, err := x.c.Create(given, x.at("/never"), nil, zk.Persistent, x.mine...)
		lost <- err
	}()
	made := make(chan error)
	for i := range 20 {
		go func() {
			_, _, err := x.c.Create(x.ctx, x.at(fmt.Sprintf("/n%d", i)), nil, zk.Ephemeral, x.mine...)
			made <- err
		}()
	}
	giveUp()
	err := <-lost
	x.wants("create given up", err, context.Canceled)
	if zk.MayHaveHappened(err) {
		x.Errorf("%v: MayHaveHappened is true for a request that was not sent", err)
	}
	x.gate.let(anywhere)
	for range 20 {
		x.must(<-made)
	}
	if x.session(x.client) != s {
		x.Error("the session did not survive")
	}
	if _, exists, err := x.c.Exists(x.ctx, x.at("/never")); err != nil || exists {
		x.Errorf("the abandoned request was executed: %t, %v", exists, err)
	}
}

func cancelledReturnsAtOnce(x *exam) {
	x.create("/n")
	ended, end := context.WithCancelCause(x.ctx)
	reason := errors.New("not wanted any more")
	end(reason)
	_, _, err := x.c.Create(ended, x.at("/never"), nil, zk.Persistent, x.mine...)
	x.wants("create with a context that has ended", err, reason)
	if zk.MayHaveHappened(err) {
		x.Errorf("%v: MayHaveHappened is true for a request that was not sent", err)
	}

	long := make([]byte, 20<<10)
	wrote, release := x.gate.hold(len(long))
	given, giveUp := context.WithCancelCause(x.ctx)
	lost := make(chan error, 2)
	go func() {
		_, _, err := x.c.Create(given, x.at("/c"), long, zk.Persistent, x.mine...)
		lost <- err
	}()
	<-wrote
	giveUp(reason)
	err = <-lost // though no answer can have arrived
	x.wants("create given up under way", err, reason)
	if !zk.MayHaveHappened(err) || zk.SafeToRetry(err) {
		x.Errorf("%v: may have happened %t, safe to retry %t", err, zk.MayHaveHappened(err), zk.SafeToRetry(err))
	}
	// An abandoned watch fires for nobody, though the server has it.
	given, giveUp = context.WithCancelCause(x.ctx)
	go func() {
		_, _, w, err := x.c.GetW(given, x.at("/n"))
		if w != nil {
			x.Error("a failed call left a watch")
		}
		lost <- err
	}()
	giveUp(reason)
	x.wants("get given up", <-lost, reason)
	release()

	w := x.getW("/n")
	x.set("/n")
	x.next(w, zk.EventNodeDataChanged, "/n")
	for path, want := range map[string]bool{"/never": false, "/c": true} {
		if _, exists, err := x.c.Exists(x.ctx, x.at(path)); err != nil || exists != want {
			x.Errorf("%s exists: %t, %v; want %t", path, exists, err, want)
		}
	}
}
