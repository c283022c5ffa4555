package tree

import (
	"maps"
	"slices"

	"holdfast/zkproto"
)

// A write can have many watchers, and a transaction can notify each of them thousands of times. The owner must not be
// held until all are notified. So such a write becomes a telling: the tree remembers its events and notifies some
// watchers at a time (TellMore), with other requests in between.
//
// For each watcher, nothing changes. A watcher gets the events of all tellings in the order of the writes, and all of
// them before its next request is applied (CatchUp). Until then, its watches are those that it had at the write: only
// its own requests add or remove watches. So the watches that match an event can be looked up when the watcher is
// notified. A later write with few watchers notifies these at once, after the events that they still have to get.

// A telling is a write that has not notified all its watchers.
type telling struct {
	number  int64 // rises from telling to telling
	events  []happening
	matches map[*watchers]*match
	left    []Watcher // those still to be notified, perhaps twice or already notified; see gather
	reached bool      // left is filled
	pairs   int       // of events and matching watches, at the write
	steps   int       // taken so far, see maxTelling
}

// A match is what the watches of one set match. The set stays the same while it has a watcher that is not caught up.
type match struct {
	key    watchKey
	events []int32 // indexes, ascending; of one-shot watches, the first alone
}

// A happening is an event before its watchers are known.
type happening struct {
	kind zkproto.EventType
	path string
	acl  *acl
}

const (
	// manyMatches is the number of matching watches from which a write becomes a telling. While there are
	// tellings, it is fewMatches, since each of these watchers is caught up first.
	manyMatches = 500
	fewMatches  = 8

	// tellPortion is the steps from which TellMore leaves the other watchers to the next call, and from which watchers
	// are Behind: 2,000 events of a node that everybody may read.
	tellPortion = 64 << 10
	dropSteps   = 1000 // for each watcher that loses its watches: its connection is closed

	// tellingCost is how many notifications a telling counts as in Untold, besides its own: each watcher compares its
	// watches with it.
	tellingCost = 10_000

	// maxCharge bounds the steps that the request is charged for its telling.
	maxCharge = 1 << 20
)

// Telling reports whether some watchers have not been notified of all writes. Then the caller calls TellMore soon, and
// CatchUp before each request.
func (t *Tree) Telling() bool { return len(t.tellings) > 0 }

// Untold returns a bound of the work that is left, in notifications. If it exceeds a million, the caller applies no
// writes with watchers.
func (t *Tree) Untold() int { return t.untold }

// TellMore notifies some of the watchers that are left, and reports whether there are others.
func (t *Tree) TellMore() (more bool) {
	for t.portion = 0; len(t.tellings) > 0; {
		head := t.tellings[0]
		if !head.reached {
			t.gather(head)
		}
		for len(head.left) > 0 {
			if t.portion >= t.most {
				t.portion = 0 // as many for CatchUp, until the next call
				return true
			}
			last := len(head.left) - 1
			by := head.left[last]
			head.left = head.left[:last]
			t.portion++
			t.CatchUp(by)
		}
		t.untold -= head.pairs + tellingCost
		t.tellings[0] = nil
		t.tellings = t.tellings[1:]
	}
	t.tellings, t.caughtUp = nil, nil
	return false
}

// Behind reports whether by is not caught up, and others have been caught up with too many notifications since TellMore.
// The caller applies requests of by later.
func (t *Tree) Behind(by Watcher) bool {
	if t.portion < t.most {
		return false
	}
	for _, tl := range t.tellings {
		if tl.number > t.caughtUp[by] && len(t.matched(tl, by)) > 0 {
			return true
		}
	}
	return false
}

// CatchUp notifies by of all writes so far. The caller calls it before it applies a request of by or answers one.
// Otherwise by could see a change before the notification.
func (t *Tree) CatchUp(by Watcher) {
	if len(t.tellings) == 0 {
		return
	}
	caughtUp := t.caughtUp[by]
	if caughtUp == t.newest {
		return
	}
	t.caughtUp[by] = t.newest
	for _, tl := range t.tellings {
		if tl.number > caughtUp {
			t.tellOne(tl, by)
		}
	}
}

// tellOne notifies by of the events of tl that its watches match.
func (t *Tree) tellOne(tl *telling, by Watcher) {
	before := t.steps // the request that made the telling has paid, see begin
	hits := t.matched(tl, by)
	t.steps += tellSteps*(1+len(hits)) + min(len(t.watches.byWatcher[by]), len(tl.matches))
	for _, k := range t.spent {
		t.watches.remove(by, k)
	}
	if len(hits) > 0 && tl.steps > maxTelling {
		t.drop(by)
		t.overrun = append(t.overrun, by)
		t.steps += dropSteps
		hits = nil
	}
	for _, i := range hits {
		e := &tl.events[i]
		t.steps += emitSteps
		t.emitIf(e.acl, by, e.kind, e.path)
	}
	took := t.steps - before
	t.steps = before
	tl.steps += took
	t.portion += took
}

// matched returns the events of tl that the watches of by match, in their order, and sets t.spent to the one-shot
// watches among them. Both slices are valid until the next call.
func (t *Tree) matched(tl *telling, by Watcher) []int32 {
	own, hits := t.watches.byWatcher[by], t.hits[:0]
	t.spent = t.spent[:0]
	keys := 0
	add := func(m *match) {
		keys++
		hits = append(hits, m.events...)
		if m.key.kind.oneShot() {
			t.spent = append(t.spent, m.key)
		}
	}
	switch {
	case len(own) == 0: // it may be dropped, and still be in the sets
	case len(own) < len(tl.matches)/4:
		for k := range own {
			if m := tl.matches[t.watches.armed[k.kind][k.path]]; m != nil {
				add(m)
			}
		}
	default:
		for armed, m := range tl.matches {
			if armed.has(by) {
				add(m)
			}
		}
	}
	if t.hits = hits; keys > 1 {
		slices.Sort(hits)
		hits = slices.Compact(hits)
	}
	return hits
}

// gather fills tl.left with the watchers that its events may match.
func (t *Tree) gather(tl *telling) {
	tl.reached = true
	for armed := range tl.matches {
		if len(tl.left)+armed.count() > len(t.watches.byWatcher) { // all watchers are not more
			tl.left = slices.AppendSeq(tl.left[:0], maps.Keys(t.watches.byWatcher))
			return
		}
		tl.left = slices.AppendSeq(tl.left, armed.all())
	}
}

// notify notifies the watchers of the current write, or makes it a telling.
func (t *Tree) notify() {
	most := t.many
	if len(t.tellings) > 0 {
		most = min(most, fewMatches)
	}
	if pairs := t.countMatches(most); pairs > most {
		t.begin(pairs)
		return
	}
	if len(t.tellings) > 0 {
		for _, tr := range t.triggers {
			t.eachMatch(tr, func(_ bool, _ watchKey, armed *watchers) {
				for by := range armed.all() {
					t.CatchUp(by)
				}
			})
		}
	}
	for _, tr := range t.triggers {
		t.fire(tr)
	}
}

// countMatches returns a bound of how many watches match the triggers. It does not count if the bound is below most in
// any case.
func (t *Tree) countMatches(most int) (pairs int) {
	if len(t.tellings) == 0 && 2*len(t.triggers)*len(t.watches.byWatcher) <= most {
		return 0
	}
	for _, tr := range t.triggers {
		t.eachMatch(tr, func(_ bool, _ watchKey, armed *watchers) { pairs += armed.count() })
	}
	return pairs
}

// begin makes the current write a telling, and counts the steps that it will take.
func (t *Tree) begin(pairs int) {
	if len(t.tellings) == 0 {
		t.caughtUp, t.portion = make(map[Watcher]int64), 0
	}
	t.newest++
	tl := &telling{number: t.newest, matches: make(map[*watchers]*match), pairs: pairs}
	for _, tr := range t.triggers {
		first := len(tl.events)
		tl.events = append(tl.events, happening{tr.kind, tr.path, tr.acl})
		if tr.hasParent {
			tl.events = append(tl.events, happening{zkproto.EventNodeChildrenChanged, parentOf(tr.path), tr.parentACL})
		}
		t.eachMatch(tr, func(second bool, k watchKey, armed *watchers) {
			i := first
			if second {
				i++
			}
			m := tl.matches[armed]
			if m == nil {
				m = &match{key: k}
				tl.matches[armed] = m
			}
			if len(m.events) == 0 || !k.kind.oneShot() {
				m.events = append(m.events, int32(i))
			}
		})
	}
	t.tellings = append(t.tellings, tl)
	t.untold += pairs + tellingCost
	t.steps += min(tellSteps*pairs, maxCharge)
}

// eachMatch calls f for every set of watchers that an event of tr matches. second is whether it is the event of the
// parent's children. See fire.
func (t *Tree) eachMatch(tr trigger, f func(second bool, k watchKey, armed *watchers)) {
	match := func(second bool, kind watchKind, path string) {
		if armed := t.watches.armed[kind][path]; armed != nil {
			f(second, watchKey{kind, path}, armed)
		}
	}
	match(false, watchData, tr.path)
	match(false, watchPersistent, tr.path)
	if tr.kind == zkproto.EventNodeDeleted {
		match(false, watchChildren, tr.path)
	}
	if len(t.watches.armed[watchRecursive]) > 0 {
		for above := tr.node; above != nil; above = above.parent {
			if armed := above.recursive; !armed.none() {
				f(false, watchKey{watchRecursive, above.path}, armed)
			}
		}
	}
	if tr.hasParent {
		parent := parentOf(tr.path)
		match(true, watchChildren, parent)
		match(true, watchPersistent, parent)
	}
}

// Watchers returns a bound of how many watchers a change of the node at path has.
func (t *Tree) Watchers(path string) (n int) {
	tr := trigger{kind: zkproto.EventNodeDeleted, path: path, hasParent: true}
	if tr.node = t.nodes[path]; tr.node == nil {
		tr.node = t.nodes[parentOf(path)]
	}
	t.eachMatch(tr, func(_ bool, _ watchKey, armed *watchers) { n += armed.count() })
	return n
}
