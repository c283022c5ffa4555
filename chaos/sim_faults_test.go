package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"holdfast/chaos"
	"holdfast/zkproto"
)

// A tally counts faults by their kinds.
type tally map[string]*faultCount

// A faultCount counts how often a fault was tried, and how often it had an effect: a fault without effect
// tests nothing.
type faultCount struct{ Tried, Effect int }

func (t *tally) count(kind string, tried, effect int) {
	if *t == nil {
		*t = make(tally)
	}
	if (*t)[kind] == nil {
		(*t)[kind] = &faultCount{}
	}
	(*t)[kind].Tried += tried
	(*t)[kind].Effect += effect
}

func (t *tally) add(o tally) {
	for kind, n := range o {
		t.count(kind, n.Tried, n.Effect)
	}
}

// A fault does something to the world, and reverts it. It reports whether any client could notice.
type fault struct {
	kind   string
	weight int  // 0 means 1
	admin  bool // it ends a session by force
	one    bool // only in a world with one server
	do     func(n *nemesis) bool
}

// A nemesis runs one fault after the other.
type nemesis struct {
	*world
	rng    *rand.Rand
	locks  []lockSpec
	faults []fault
}

// possible returns the faults that apply to this world.
func (w *world) possible(faults []fault) []fault {
	return slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		return f.one && w.many != nil || f.kind == growth && w.growsTo == 0 || f.kind == killed && w.processes != nil
	})
}

func allFaults() []fault { return slices.Concat(clientFaults, serverFaults, adminFaults) }

const killed = "client killed" // in a world with processes, they are killed

// clientFaults are faults of clients and their connections, and of the only server.
var clientFaults = []fault{
	{kind: "reset", do: func(n *nemesis) bool { return n.victim().line.breakAll(false) > 0 }},
	{kind: "reset with all that is under way", do: func(n *nemesis) bool { return n.victim().line.breakAll(true) > 0 }},
	{kind: "reset of all clients", do: func(n *nemesis) bool {
		broken := 0
		for _, c := range n.clients {
			broken += c.line.breakAll(n.rng.IntN(2) == 0)
		}
		return broken > 0
	}},
	{kind: "cut both ways", do: func(n *nemesis) bool { return n.cut(true, true, n.victim()) }},
	{kind: "cut from client to server", do: func(n *nemesis) bool { return n.cut(true, false, n.victim()) }},
	{kind: "cut from server to client", do: func(n *nemesis) bool { return n.cut(false, true, n.victim()) }},
	{kind: "stall", do: func(n *nemesis) bool { return n.cut(true, true, n.clients...) }},
	{kind: "slow network", do: (*nemesis).slow},
	{kind: "lost request", do: func(n *nemesis) bool { return n.drop(false) }},
	{kind: "lost reply", weight: 2, do: func(n *nemesis) bool { return n.drop(true) }},
	{kind: "server restart", one: true, do: (*nemesis).restart},
	{kind: killed, do: (*nemesis).kill},
	{kind: "session expiry", admin: true, do: (*nemesis).expire},
	{kind: "throttled", do: (*nemesis).throttle},
}

// nemesis runs until the world is made whole.
func (w *world) nemesis(o options, locks []lockSpec, of []fault, stream uint64) {
	n := &nemesis{world: w, rng: rand.New(rand.NewPCG(w.seed, stream)), locks: locks, faults: w.possible(of)}
	end := w.began.Add(w.lasts)
	for {
		time.Sleep(time.Duration(n.rng.ExpFloat64() * float64(time.Second)))
		if !time.Now().Before(end) {
			return
		}
		f := n.choose()
		if o.Skew != 0 { // with wrong clocks, a cut is enough to do harm
			n.tell("fault: cut")
			n.cutFor(2*n.timeout, true, true, n.victim())
			continue
		}
		if f.admin && o.NoAdmin {
			continue
		}
		w.tell("fault: %s", f.kind)
		effect := 1
		if !f.do(n) {
			effect = 0
			w.tell("fault: %s had no effect", f.kind)
		}
		w.mu.Lock()
		w.faults.count(f.kind, 1, effect)
		w.mu.Unlock()
	}
}

func (n *nemesis) choose() fault {
	sum := 0
	for _, f := range n.faults {
		sum += max(f.weight, 1)
	}
	for pick := n.rng.IntN(sum); ; {
		for _, f := range n.faults {
			if pick -= max(f.weight, 1); pick < 0 {
				return f
			}
		}
	}
}

func (n *nemesis) victim() *client { return n.clients[n.rng.IntN(len(n.clients))] }

// during returns how long a fault lasts: mostly less than a session, sometimes more.
func (n *nemesis) during() time.Duration {
	d := float64(n.timeout) * n.rng.Float64()
	if n.rng.IntN(4) == 0 {
		d *= 2
	}
	return time.Duration(d)
}

// cut holds back messages in some directions, and releases them at the end.
func (n *nemesis) cut(up, down bool, victims ...*client) bool {
	return n.cutFor(n.during(), up, down, victims...)
}

func (n *nemesis) cutFor(d time.Duration, up, down bool, victims ...*client) bool {
	before := 0
	for _, c := range victims {
		n.tell("cut: client %d, up %v, down %v", c.number, up, down)
		c.line.set(func(ln *line) {
			ln.cut = cut{up, down}
			before += ln.heldFrames
		})
	}
	time.Sleep(d)
	after := 0
	for _, c := range victims {
		reset := n.rng.IntN(3) == 0 // some connections break during the cut
		if reset {
			c.line.breakAll(n.rng.IntN(2) == 0)
		}
		c.line.set(func(ln *line) {
			ln.cut = cut{}
			after += ln.heldFrames
		})
		n.tell("healed: client %d", c.number)
	}
	return after > before
}

func (n *nemesis) slow() bool {
	c := n.victim()
	var before, after int
	c.line.set(func(ln *line) {
		ln.slow = 50*time.Millisecond + time.Duration(n.rng.Int64N(int64(n.timeout/4)))
		before = ln.slowFrames
	})
	time.Sleep(n.during())
	c.line.set(func(ln *line) { ln.slow, after = 0, ln.slowFrames })
	return after > before
}

// drop loses the next request of a kind that a client makes, or its answer.
func (n *nemesis) drop(reply bool) bool {
	ops := []zkproto.Op{
		zkproto.OpCreate2, zkproto.OpCreate2, zkproto.OpCreate2, zkproto.OpDelete, zkproto.OpDelete,
		zkproto.OpMulti, zkproto.OpGetData, zkproto.OpGetChildren2, zkproto.OpSync, zkproto.OpCreateContainer,
	}
	op := ops[n.rng.IntN(len(ops))]
	c := n.victim()
	var before, after int
	c.line.set(func(ln *line) { ln.drop, ln.dropReply, before = op, reply, ln.dropped })
	for end := time.Now().Add(2 * time.Second); after <= before && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		c.line.set(func(ln *line) { after = ln.dropped })
	}
	c.line.set(func(ln *line) { ln.drop = 0 })
	if after > before {
		n.tell("lost: client %d, %v, reply %v", c.number, op, reply)
	}
	return after > before
}

// throttle makes the servers refuse requests with ErrThrottled for a while.
func (n *nemesis) throttle() bool {
	victims := n.clients
	if n.rng.IntN(2) == 0 {
		victims = []*client{n.victim()}
	}
	before, after := 0, 0
	for _, c := range victims {
		c.line.set(func(ln *line) { ln.throttled, before = true, before+ln.throttles })
	}
	time.Sleep(n.during() / 2)
	for _, c := range victims {
		c.line.set(func(ln *line) { ln.throttled, after = false, after+ln.throttles })
	}
	return after > before
}

func (n *nemesis) restart() bool {
	_, before, _ := n.servers.counts()
	n.servers.crash()
	time.Sleep(n.during() / 2)
	n.servers.start()
	n.tell("all servers are back")
	return before > 0
}

// kill removes a client without closing it, so the server keeps its session until it times out. A new
// client takes its place.
func (n *nemesis) kill() bool { return n.killClient(n.victim()) }

func (w *world) killClient(c *client) bool {
	had := c.session.Swap(0) != 0
	w.tell("killed: client %d", c.number)
	c.line.set(func(ln *line) { ln.cut = cut{true, true} })
	c.zk.Load().Close()
	c.line.breakAll(true)
	c.line.set(func(ln *line) {
		ln.cut = cut{}
		ln.addrs = nil // the next client knows the servers in another order
		ln.servers = append(ln.servers[1:], ln.servers[0])
	})
	c.zk.Store(w.dial(c.line, w.follow(c)))
	return had
}

func (n *nemesis) expire() bool { return n.expireClient(n.victim()) }

func (w *world) expireClient(c *client) bool {
	id := c.session.Load()
	if id == 0 {
		return false
	}
	w.endsByForce(id, w.log.Now())
	return w.servers.expire(id)
}

// endsByForce records that a session ends at a time, or later, so that its client cannot be told before.
func (w *world) endsByForce(session int64, at time.Duration) {
	w.log.Add(chaos.Op{Kind: chaos.Break, Session: session, Call: at, Return: chaos.Never})
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.forced == nil {
		w.forced = make(map[int64]bool)
	}
	w.forced[session] = true
}

// endedByForce reports whether a session was ended so that its client could not be told in time. It also
// reports true if the cause of the end is unknown.
func (w *world) endedByForce(session int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return session == 0 || w.forced[session]
}

func (t tally) String() string {
	var b strings.Builder
	for _, f := range append(allFaults(), processFaults...) {
		if c := t[f.kind]; c != nil {
			fmt.Fprintf(&b, "\n\t%7d of %7d %s", c.Effect, c.Tried, f.kind)
		}
	}
	return b.String()
}
