package chaos_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/zk"
)

// adminFaults are edits of queues by an operator, by hand or with this package's functions.
var adminFaults = []fault{
	{kind: "admin deletes a holder", do: func(n *nemesis) bool { return n.remove(0) }},
	{kind: "admin deletes a waiter", weight: 3, do: func(n *nemesis) bool { return n.remove(1) }},
	{kind: "admin deletes the parent", do: (*nemesis).removeParent},
	{kind: "admin breaks a holder", do: func(n *nemesis) bool { return n.breakOne(true) }},
	{kind: "admin breaks a waiter", do: func(n *nemesis) bool { return n.breakOne(false) }},
	{kind: "admin asks a holder for the lock", weight: 2, do: func(n *nemesis) bool { return n.revoke(true) }},
	{kind: "admin asks a waiter for its place", do: func(n *nemesis) bool { return n.revoke(false) }},
	{kind: "limit changed", weight: 3, do: (*nemesis).limit},
}

// remove removes the first node of a lock's queue, or another one.
func (n *nemesis) remove(which int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), n.timeout)
	defer cancel()
	l := n.locks[n.rng.IntN(len(n.locks))]
	nodes, err := n.ephemerals(ctx, l.dirs[n.rng.IntN(len(l.dirs))])
	if err != nil { // another fault is active, and the admin gives up as soon as n does
		return false
	}
	type place struct {
		path string
		stat zk.Stat
	}
	var queue []place
	for _, node := range nodes {
		if stat, ok, err := n.admin.Exists(ctx, node); err == nil && ok {
			queue = append(queue, place{node, stat})
		}
	}
	if len(queue) <= which {
		return false
	}
	victim := queue[0]
	for _, p := range queue { // the oldest, most likely the holder's
		if p.stat.Czxid < victim.stat.Czxid {
			victim = p
		}
	}
	if which > 0 {
		oldest := victim.path
		for victim.path == oldest {
			victim = queue[n.rng.IntN(len(queue))]
		}
	}
	return n.delete(ctx, victim.path, victim.stat)
}

// delete removes one node. If it was a claim's, the claim ends now, since its holder cannot be told in
// time.
func (n *nemesis) delete(ctx context.Context, path string, stat zk.Stat) bool {
	at := n.log.Now()
	err := n.admin.Delete(ctx, path, zk.AnyVersion)
	n.tell("delete %s: %v", path, err)
	if err == nil || zk.MayHaveHappened(err) {
		n.broken(path, stat.Czxid, at)
		n.mayHit(path, stat.Czxid, at)
	}
	if err == nil {
		n.mustBeTold(path, stat.Czxid)
	}
	return err == nil
}

// broken records that a node was removed, or may have been. If it was a claim's, the claim ends at that
// time, since its holder cannot be told before.
func (n *nemesis) broken(path string, token int64, at time.Duration) {
	for _, l := range n.locks {
		for _, id := range l.ids {
			if path == id.node || strings.HasPrefix(path, id.node+"/") {
				n.log.Add(chaos.Op{Kind: chaos.Break, Lock: id.id, Node: path, Token: token, Call: at, Return: chaos.Never})
			}
		}
	}
}

// A removal is a delete of a node by its name, which took some time.
type removal struct {
	path     string
	token    int64
	from, to time.Duration
}

// mayHit records a removal that has just returned. If the name can come back, the removal may have hit
// the next node of that name.
func (n *nemesis) mayHit(path string, token int64, from time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removals = append(n.removals, removal{path, token, from, n.log.Now()})
}

// pick lists the queue of a lock and picks a holder or a waiter.
func (n *nemesis) pick(ctx context.Context, holder bool) (spec lockSpec, e holdfast.Entry, ok bool) {
	spec = n.locks[n.rng.IntN(len(n.locks))]
	all, err := holdfast.List(ctx, n.admin, spec.path, spec.layout)
	if err != nil {
		return spec, e, false
	}
	if spec.clashes {
		n.strangers(ctx, spec)
	}
	all = slices.DeleteFunc(all, func(e holdfast.Entry) bool { return e.Held != holder })
	if len(all) == 0 {
		return spec, e, false
	}
	return spec, all[n.rng.IntN(len(all))], true
}

// strangers lists the nodes beside a lock of one kind and layout. It must never show the lock's
// own places.
func (n *nemesis) strangers(ctx context.Context, spec lockSpec) {
	found, err := holdfast.Foreign(ctx, n.admin, spec.path, spec.layout)
	for _, f := range found {
		name, below := strings.CutPrefix(f.Path, spec.path+"/")
		own := !strings.Contains(name, "/") && spec.layout.Contends(name)
		if !below || f.Kind == "" || own {
			n.found("foreign", spec.path, "%+v, error %v", f, err)
		}
	}
}

// breakOne breaks a lock, or removes a place in its queue, by its token.
func (n *nemesis) breakOne(holder bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), n.timeout)
	defer cancel()
	spec, e, ok := n.pick(ctx, holder)
	if !ok {
		return false
	}
	at := n.log.Now()
	err := holdfast.Break(ctx, n.admin, spec.path, e.Token)
	n.tell("break %s, token %d: %v", e.Path, e.Token, err)
	if errors.Is(err, holdfast.ErrNotHeld) {
		return false
	}
	n.broken(e.Path, e.Token, at)
	n.mayHit(e.Path, e.Token, at)
	if err != nil {
		return false
	}
	n.mustBeTold(e.Path, e.Token)
	return true
}

// revoke asks for the lock.
func (n *nemesis) revoke(holder bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), n.timeout)
	defer cancel()
	spec, e, ok := n.pick(ctx, holder)
	if !ok {
		return false
	}
	err := holdfast.Revoke(ctx, n.admin, spec.path, e.Token)
	n.tell("revoke %s, token %d: %v", e.Path, e.Token, err)
	if strings.HasSuffix(e.Path, nodeLock) || spec.slots != nil {
		n.relabelled(ctx, e)
	}
	if err != nil {
		return false
	}
	n.mustBeAsked(e.Path, e.Token)
	return true
}

// relabelled removes the node of a NodeLock or a slot if it got a request that was meant for the node before it.
// A creator that has lost the answer to its create would not recognize it (see Revoke).
func (n *nemesis) relabelled(ctx context.Context, e holdfast.Entry) {
	stat, ok, err := n.admin.Exists(ctx, e.Path)
	if err == nil && ok && stat.Czxid != e.Token && stat.Version > 0 {
		n.delete(ctx, e.Path, stat)
	}
}

// limit changes the limit of a semaphore.
func (n *nemesis) limit() bool {
	for _, l := range n.locks {
		if l.limits == 0 {
			continue
		}
		first := l.of(n.admin)[0]
		o := first.parts[0]
		o.Kind, o.Outcome, o.Permits, o.Limit, o.Call = chaos.Change, chaos.OK, 0, 1+n.rng.IntN(l.limits), n.log.Now()
		err := first.semaphore.SetLimit(context.Background(), o.Limit)
		for errors.Is(err, zk.ErrSessionExpired) {
			err = first.semaphore.SetLimit(context.Background(), o.Limit)
		}
		if err != nil {
			n.found("error", l.path, "set limit: %v", err)
			return false
		}
		o.Return = n.log.Now()
		n.log.Add(o)
		n.tell("the limit of %s is %d", l.path, o.Limit)
		return true
	}
	return false
}

// hitByName returns the claims that a stray delete ended: it was meant for an earlier node of the same
// name. The server compares versions, not czxids, so nothing can prevent that. The delete is the
// admin's, or it comes from the creator of the earlier node, and was in flight when the admin removed
// that node. A creator deletes its node after a claim, or when it gives up its place in a queue, and
// needs at most late for that.
func hitByName(ops []chaos.Op, removals []removal, late time.Duration) []chaos.Op {
	// A NodeLock's path is that of its node. The log has no nodes for the later parts of a MultiLock.
	of := func(o chaos.Op, path string) bool {
		slot := slices.ContainsFunc(o.Slots, func(number int) bool { return chaos.SlotNode(o.Lock, number) == path })
		return o.Node == path || slot || o.Lock == path && strings.HasSuffix(path, nodeLock)
	}
	var deletes []removal
	removed := make(map[int64]removal) // by token
	for _, r := range removals {
		switch {
		case strings.HasSuffix(r.path, nodeLock):
			deletes = append(deletes, r)
			removed[r.token] = r
		case comesBack(r.path):
			deletes = append(deletes, removal{r.path, r.token, r.from, r.to + late})
		}
	}
	for _, o := range ops {
		if r, ok := removed[o.Token]; ok && o.Kind == chaos.Release && of(o, r.path) {
			deletes = append(deletes, removal{r.path, r.token, r.from, min(o.Return, o.Call+late)})
		}
	}
	var hits []chaos.Op
	for _, r := range deletes {
		for _, o := range ops {
			if o.Kind != chaos.Acquire && o.Kind != chaos.Try || !of(o, r.path) || o.Token <= r.token || o.Call >= r.to {
				continue
			}
			hits = append(hits, chaos.Op{Kind: chaos.Break, Lock: o.Lock, Token: o.Token, Call: max(r.from, o.Call), Return: chaos.Never})
		}
	}
	return hits
}

// comesBack reports whether a queue reuses this node's name after its directory was removed and made
// again: the name has no id of the attempt.
func comesBack(path string) bool { return !attemptID.MatchString(path) }

var attemptID = regexp.MustCompile(`[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// A delete excuses the end of a later claim only where names come back, and only for a while.
func TestOnlyNamesThatComeBackAreHit(t *testing.T) {
	const late = 10 * time.Second
	for _, tt := range []struct {
		node string
		call time.Duration // start of the later claim
		hit  bool
	}{
		{"/locks/a/one_lock_0000000002", 3 * time.Second, true},
		{"/locks/a/one_lock_0000000002", 13 * time.Second, false},
		{"/locks/a/lock-72057594037927936-0000000002", 3 * time.Second, true},
		{"/locks/a/x-72057594037927936-0000000002", 3 * time.Second, true},
		{"/locks/a/host-W-0000000002", 3 * time.Second, true},
		{"/locks/a/_c_3b916eb1-857a-4e55-8a47-f7b07cf2f8a0-lock-0000000002", 3 * time.Second, false},
		{"/locks/a/468c57b9dc8e429b90c2b165b13221d3__lock__0000000002", 3 * time.Second, false},
	} {
		removals := []removal{{tt.node, 10, time.Second, 2 * time.Second}}
		claim := chaos.Op{Kind: chaos.Acquire, Lock: "/locks/a", Node: tt.node, Token: 11, Call: tt.call, Return: tt.call + time.Second}
		before := claim
		before.Token = 9
		if hits := hitByName([]chaos.Op{claim, before}, removals, late); (len(hits) == 1) != tt.hit || tt.hit && hits[0].Token != 11 {
			t.Errorf("%s, a claim from %v: %v; want a hit: %v", tt.node, tt.call, hits, tt.hit)
		}
	}
}

// The delete of a NodeLock's node hits the next one, also where that is a part of a MultiLock.
func TestAPartOfAMultiLockIsHit(t *testing.T) {
	const node = "/locks/a/node"
	release := chaos.Op{Kind: chaos.Release, Lock: node, Token: 10, Call: time.Second, Return: chaos.Never}
	claim := chaos.Op{Kind: chaos.Acquire, Lock: node, Token: 11, Call: 3 * time.Second, Return: 4 * time.Second}
	removals := []removal{{node, 10, time.Second, 2 * time.Second}}
	for _, of := range []string{node, ""} { // of the release and of the claim
		release.Node, claim.Node = of, node
		for range 2 {
			if hits := hitByName([]chaos.Op{release, claim}, removals, 10*time.Second); len(hits) != 1 || hits[0].Token != 11 {
				t.Errorf("released as %q, claimed as %q: %v; want a hit", release.Node, claim.Node, hits)
			}
			claim.Node = ""
		}
	}
}

// removeParent removes a lock's directory with all holders and waiters.
func (n *nemesis) removeParent() bool {
	ctx, cancel := context.WithTimeout(context.Background(), n.timeout)
	defer cancel()
	l := n.locks[n.rng.IntN(len(n.locks))]
	if l.lasting {
		return false
	}
	dir := l.dirs[n.rng.IntN(len(l.dirs))]
	for range 10 { // others join meanwhile
		names, _, err := n.admin.Children(ctx, dir)
		if err != nil {
			return false
		}
		slices.Sort(names) // the server returns them in any order
		for _, name := range names {
			path := dir + "/" + name
			if stat, ok, err := n.admin.Exists(ctx, path); err == nil && ok {
				if stat.NumChildren > 0 {
					return false
				}
				n.delete(ctx, path, stat)
			}
		}
		if err := n.admin.Delete(ctx, dir, zk.AnyVersion); err == nil {
			n.tell("delete %s", dir)
			return true
		}
	}
	return false
}
