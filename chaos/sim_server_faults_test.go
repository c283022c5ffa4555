package chaos_test

import "time"

// serverFaults are faults of an ensemble: of its servers and of the links between them, each direction by
// itself.
var serverFaults = []fault{
	{kind: "quorum link stalls one way", weight: 3, do: func(n *nemesis) bool {
		return n.stall(n.during(), n.direction())
	}},
	{kind: "quorum link stalls one way, then the other", weight: 4, do: func(n *nemesis) bool {
		d := n.direction()
		first := n.stall(n.during(), d)
		return n.stall(n.during(), d.reverse()) || first
	}},
	{kind: "server cut off from the others", weight: 2, do: func(n *nemesis) bool { return n.isolate(true, true) }},
	{kind: "server that the others do not hear", do: func(n *nemesis) bool { return n.isolate(true, false) }},
	{kind: "server that does not hear the others", do: func(n *nemesis) bool { return n.isolate(false, true) }},
	{kind: "quorum connection broken", do: func(n *nemesis) bool { return n.many.breakLearner(n.server()) }},
	{kind: "slow quorum link", do: (*nemesis).slowLink},
	{kind: "server killed", weight: 2, do: (*nemesis).killOne},
	{kind: "server stopped", weight: 2, do: (*nemesis).stopOne},
	{kind: "all servers killed", do: (*nemesis).restart},
	{kind: "client cut off from one server", weight: 2, do: (*nemesis).cutFromOne},
	{kind: growth, weight: 4, do: (*nemesis).becomeSeveral},
}

const growth = "server alone becomes one of several"

// server returns any server, in half of the cases the leader.
func (n *nemesis) server() *server {
	all := n.many.all()
	if l := n.many.leader(); l != nil && n.rng.IntN(2) == 0 {
		return l
	}
	return all[n.rng.IntN(len(all))]
}

// A direction is one direction of a link between two servers.
type direction struct{ from, to *server }

func (d direction) reverse() direction { return direction{d.to, d.from} }

// direction returns any direction; mostly one of the two servers leads. For a single server, it
// begins and ends there.
func (n *nemesis) direction() direction {
	all := n.many.all()
	d := direction{all[n.rng.IntN(len(all))], all[n.rng.IntN(len(all))]}
	if l := n.many.leader(); l != nil && n.rng.IntN(4) > 0 {
		d.from = l
	}
	for d.from == d.to && len(all) > 1 {
		d.to = all[n.rng.IntN(len(all))]
	}
	if n.rng.IntN(3) == 0 {
		d = d.reverse()
	}
	return d
}

// stall holds back messages in some directions, and delivers them at the end.
func (n *nemesis) stall(d time.Duration, directions ...direction) bool {
	before, after := 0, 0
	for _, d := range directions {
		if d.from == d.to {
			return false
		}
		before += n.many.hold(d.from, d.to, true)
	}
	time.Sleep(d)
	for _, d := range directions {
		after += n.many.hold(d.from, d.to, false)
	}
	return after > before
}

// isolate separates one server from all others: its outgoing messages, its incoming ones, or both.
func (n *nemesis) isolate(mute, deaf bool) bool {
	s := n.server()
	var all []direction
	for _, o := range n.many.all() {
		if o != s && mute {
			all = append(all, direction{s, o})
		}
		if o != s && deaf {
			all = append(all, direction{o, s})
		}
	}
	return n.stall(n.during(), all...)
}

func (n *nemesis) slowLink() bool {
	d := n.direction()
	if d.from == d.to {
		return false
	}
	n.tell("slow: from server %d to %d", d.from.id, d.to.id)
	n.many.slowDown(d.from, d.to, time.Duration(n.rng.Int64N(int64(n.timeout/4))))
	time.Sleep(n.during())
	n.many.slowDown(d.from, d.to, 0)
	return true
}

func (n *nemesis) killOne() bool {
	s := n.server()
	n.many.killServer(s)
	time.Sleep(n.during() / 2)
	n.many.startServer(s)
	return true
}

func (n *nemesis) stopOne() bool {
	s := n.server()
	n.tell("server %d is stopped", s.id)
	n.many.freeze(s)
	time.Sleep(n.during())
	n.many.thaw(s)
	return true
}

// cutFromOne separates a client from one server only.
func (n *nemesis) cutFromOne() bool {
	c, s := n.victim(), n.server()
	off := []cut{{true, true}, {up: true}, {down: true}}[n.rng.IntN(3)]
	n.tell("cut: client %d from server %d, %+v", c.number, s.id, off)
	var before, after int
	c.line.set(func(ln *line) { ln.cutOff[s.id-1], before = off, ln.heldFrames })
	time.Sleep(n.during())
	c.line.set(func(ln *line) { ln.cutOff[s.id-1], after = cut{}, ln.heldFrames })
	return after > before
}

// becomeSeveral makes a standalone server a member of an ensemble, with all its sessions.
func (n *nemesis) becomeSeveral() bool {
	if n.growsTo == 0 {
		return false
	}
	n.many.crash()
	time.Sleep(n.during() / 4)
	n.many.grow(n.growsTo)
	n.growsTo = 0
	n.many.start()
	// The new servers have no history. Until they have it, they must not outvote the old one.
	for !n.many.inStep() {
		time.Sleep(n.tick)
	}
	return true
}
