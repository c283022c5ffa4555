//go:build unix

package interop

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"holdfast/zk"
)

// A session over several connections, until its end.
var sessionCases = map[string]feature{
	"a session outlives its connections":            {sessionOutlivesConnections, v3_5},
	"thousands of watches outlive their connection": {manyWatchesOutliveConnection, v3_5},
	"persistent watches say what they missed":       {persistentSayWhatTheyMissed, v3_6},
	"expiry is told before the node goes":           {expiryIsTold, v3_6},
	"closing removes the ephemeral nodes at once":   {closingRemovesEphemerals, v3_5},
	"a lease proves the session":                    {leaseProvesTheSession, v3_5},
	"what is of the session ends with the client":   {closedClientRefuses, v3_5},
}

func sessionOutlivesConnections(x *exam) {
	s := x.session(x.client)
	created := x.ephemeral("/mine")
	w := x.getW("/mine")
	for range 3 {
		x.gate.cut()
		for { // with our identity: no other client may read it
			_, stat, err := x.c.Get(x.ctx, x.at("/mine"))
			if zk.SafeToRetry(err) {
				continue
			}
			x.must(err)
			if stat != created || stat.EphemeralOwner != s.ID() {
				x.Errorf("the node is another one: %+v; was %+v", stat, created)
			}
			break
		}
	}
	if x.session(x.client) != s {
		x.Error("another session")
	}
	x.silent(w)
	x.set("/mine")
	x.next(w, zk.EventNodeDataChanged, "/mine")
}

// Their paths together exceed one request.
func manyWatchesOutliveConnection(x *exam) {
	const each = 600
	other := x.by(x.dial())
	long := strings.Repeat("long-", 120)
	path := func(kind string, i int) string { return fmt.Sprintf("/%s-%s%d", kind, long, i) }
	var ops []zk.Op
	for i := range each {
		for _, kind := range []string{"data", "children"} {
			ops = append(ops, zk.CreateOp(x.at(path(kind, i)), nil, zk.Persistent, x.mine...))
		}
	}
	_, err := x.c.Pipeline(x.ctx, ops...)
	x.must(err)
	var data, missing, children []*zk.Watch
	for i := range each {
		data = append(data, x.getW(path("data", i)))
		missing = append(missing, x.existsW(path("missing", i), false))
		children = append(children, x.childrenW(path("children", i)))
	}
	change := func(those func(i int) bool) {
		x.Helper()
		var ops []zk.Op
		for i := range each {
			if those(i) {
				ops = append(ops, zk.SetOp(x.at(path("data", i)), nil, zk.AnyVersion),
					zk.CreateOp(x.at(path("missing", i)), nil, zk.Persistent, x.mine...),
					zk.CreateOp(x.at(path("children", i))+"/c", nil, zk.Persistent, x.mine...))
			}
		}
		_, err := other.c.Pipeline(x.ctx, ops...)
		x.must(err)
	}
	fired := func(those func(i int) bool) {
		x.Helper()
		for i := range each {
			if those(i) {
				x.next(data[i], zk.EventNodeDataChanged, path("data", i))
				x.next(missing[i], zk.EventNodeCreated, path("missing", i))
				x.next(children[i], zk.EventNodeChildrenChanged, path("children", i))
			}
		}
	}
	some := func(i int) bool { return i%10 == 0 }
	rest := func(i int) bool { return !some(i) }
	x.breakConnection()
	change(some)
	x.gate.let(anywhere)
	fired(some)
	x.catchUp() // every other event has arrived before
	for i := range each {
		if rest(i) {
			x.silent(data[i])
			x.silent(missing[i])
			x.silent(children[i])
		}
	}
	change(rest)
	fired(rest)
}

func persistentSayWhatTheyMissed(x *exam) {
	away := x.by(x.dial())
	for _, path := range []string{"/n", "/t", "/t/u"} {
		x.create(path)
	}
	away.catchUp()
	node, tree, stopped := x.watch("/n", zk.WatchPersistent), x.watch("/t", zk.WatchPersistentRecursive), x.watch("/n", zk.WatchPersistent)
	stopped.Stop()
	data, treeData, children := x.getW("/n"), x.getW("/t"), x.childrenW("/t")

	x.breakConnection()
	away.set("/n")
	away.create("/t/while-away")
	x.gate.let(anywhere)

	skipMissed(x.ctx, x.T, node)
	skipMissed(x.ctx, x.T, tree)
	// The client may be with a follower now that had not applied all of it: the rest comes as events after the gap.
	x.catchUp()
	x.atMost(node, zk.EventNodeDataChanged, "/n")
	x.atMost(tree, zk.EventNodeCreated, "/t/while-away")
	x.next(data, zk.EventNodeDataChanged, "/n")
	x.next(children, zk.EventNodeChildrenChanged, "/t")
	x.silent(treeData)
	for range 2 {
		x.set("/n")
		x.tells(node, zk.EventNodeDataChanged, "/n")
		x.set("/t/u")
		x.tells(tree, zk.EventNodeDataChanged, "/t/u")
	}
	x.set("/t")
	x.next(treeData, zk.EventNodeDataChanged, "/t")
	x.tells(tree, zk.EventNodeDataChanged, "/t")
	x.quiet(node)

	x.must(x.client.Close())
	for _, w := range []*zk.PersistentWatch{node, tree} {
		if e := <-w.C; !errors.Is(e.Err, zk.ErrClosed) {
			x.Errorf("at the end: %+v", e)
		}
		if e, open := <-w.C; open {
			x.Errorf("after the end: %+v", e)
		}
	}
}

// The client is told that its session is over before the server shows it to other clients. It
// continues in another session.
func expiryIsTold(x *exam) {
	g := newGate()
	timeout := 2 * time.Second
	if x.members > 0 {
		timeout = 3 * time.Second // shorter ones are not provable there
	}
	mine := x.by(nil)
	mine.client = x.dial(func(cfg *zk.Config) { cfg.Dial, cfg.SessionTimeout = g.dial, timeout })
	s := x.session(mine.client)
	mine.c = s
	mine.ephemeral("/expires")
	lease, err := s.Lease(x.ctx, x.at("/expires"))
	x.must(err)
	defer lease.Release()
	own, tree := mine.getW("/expires"), mine.watch("/", zk.WatchPersistentRecursive)
	x.catchUp()
	theirs := x.existsW("/expires", true)

	g.let(nowhere)
	g.cut()
	select {
	case <-s.Context().Done():
	case <-theirs.C:
		x.Fatal("the server removed the node before the client knew that its session is over")
	case <-x.ctx.Done():
		x.Fatal("the session does not end")
	}
	x.wants("cause", context.Cause(s.Context()), zk.ErrSessionExpired)
	select {
	case e := <-own.C:
		x.wants("event of the session's own watch", e.Err, zk.ErrSessionExpired)
	case <-x.ctx.Done():
		x.Fatal("the session's watch does not end")
	}
	var last zk.Event
	for e := range tree.C {
		last = e
	}
	x.wants("last event of the session's persistent watch", last.Err, zk.ErrSessionExpired)
	x.next(theirs, zk.EventNodeDeleted, "/expires")

	g.let(anywhere)
	again := x.session(mine.client)
	if again.ID() == s.ID() {
		x.Errorf("session %#x came back", s.ID())
	}
	_, _, err = s.Get(x.ctx, x.at("/"))
	x.wants("get in the session that is over", err, zk.ErrSessionExpired)
	if zk.MayHaveHappened(err) {
		x.Errorf("%v may have happened", err)
	}
	_, _, err = mine.client.Get(x.ctx, x.at("/"))
	x.must(err)
}

func closingRemovesEphemerals(x *exam) {
	owner := x.by(x.dial())
	owner.catchUp()
	owner.ephemeral("/e")
	x.catchUp() // it may lag behind another server
	w := x.existsW("/e", true)
	x.must(owner.c.(*zk.Client).Close())
	x.next(w, zk.EventNodeDeleted, "/e")
}

func leaseProvesTheSession(x *exam) {
	s := x.session(x.client)
	x.ephemeral("/held")
	l, err := s.Lease(x.ctx, x.at("/held"))
	x.must(err)
	defer l.Release()
	if left := time.Until(s.Deadline()); left < s.Timeout()/2 || left > s.Timeout() {
		x.Errorf("%v left of %v", left, s.Timeout())
	}
	if x.members == 0 {
		return // on a single server any answer is a proof, without a look at the node
	}
	other := x.by(x.dial())
	other.catchUp()
	other.delete("/held")
	select {
	case <-l.Gone():
	case <-x.ctx.Done():
		x.Error("the lease does not notice that its node is gone")
	}
	// The session is not affected.
	if _, _, err := s.Get(x.ctx, x.at("/")); err != nil {
		x.Error(err)
	}
}

func closedClientRefuses(x *exam) {
	s := x.session(x.client)
	x.create("/n")
	w := x.getW("/n")
	x.must(x.client.Close())
	x.wants("cause", context.Cause(s.Context()), zk.ErrClosed)
	if e := <-w.C; !errors.Is(e.Err, zk.ErrClosed) {
		x.Errorf("the watch got %+v", e)
	}
	for _, c := range []operations{x.client, s} {
		_, _, err := c.Get(x.ctx, x.at("/n"))
		x.wants("get", err, zk.ErrClosed)
		if zk.MayHaveHappened(err) || zk.SafeToRetry(err) {
			x.Errorf("%v: may have happened %t, safe to retry %t", err, zk.MayHaveHappened(err), zk.SafeToRetry(err))
		}
	}
	x.must(x.client.Close())
}
