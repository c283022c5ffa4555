package chaos_test

import (
	"context"
	"fmt"
	"hash"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/zkproto"
)

// A deviation is the only thing that differs from the default: everything is delivered in order. Its point is the
// number of a frame between a client and its server, counted from the start of the scene. Pings and handshakes are not
// counted.
type deviation struct {
	point int
	kind  string
}

// kinds are the kinds of deviations.
var kinds = []string{
	"late",    // the frame, and all behind it on its way, take 150 ms longer, so others overtake them
	"lose",    // the frame is lost, and with it the connection
	"stall",   // the client is cut off while the frame is on its way, for less than its session lasts
	"cut",     // the client is cut off for longer than its session lasts
	"expire",  // the server ends the client's session
	"kill",    // the client crashes
	"restart", // the server crashes, and another process continues
	"cancel",  // the caller gives up the operation that it waits for
}

// A schedule is the deviations of a run, by their points.
type schedule []deviation

func (s schedule) String() string {
	parts := make([]string, len(s))
	for i, d := range s {
		parts[i] = fmt.Sprintf("%d:%s", d.point, d.kind)
	}
	return strings.Join(parts, ",")
}

func parseSchedule(text string) (s schedule, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" || part == "none" {
			continue
		}
		number, kind, _ := strings.Cut(part, ":")
		n, err := strconv.Atoi(number)
		if err != nil || !slices.Contains(kinds, kind) || len(s) > 0 && n < s[len(s)-1].point {
			return nil, fmt.Errorf("%q is no deviation: want POINT:KIND, in order, with a kind of %q", part, kinds)
		}
		s = append(s, deviation{n, kind})
	}
	return s, nil
}

// mild reports whether the schedule leaves connections, sessions and servers alone.
func (s schedule) mild() bool {
	return !slices.ContainsFunc(s, func(d deviation) bool { return d.kind != "late" && d.kind != "cancel" })
}

// A plan decides what happens to the frames of a world. The network's mutex guards its fields.
type plan struct {
	w      *world
	loud   bool     // it tells every frame
	armed  bool     // the scene has begun
	todo   schedule // what is still to come
	points []point
	late   map[*pipe]time.Time // the next frame arrives after that
	calls  map[*client][]*call
	begun  int           // calls
	turn   chan struct{} // for what a deviation does a moment later
	order  hash.Hash64   // of all frames, without their times
	healed time.Time     // when all that was deviated from is whole again

	lasting *lasting // of a scene with detached locks; not guarded
	once    *onces   // of a scene with a Once; not guarded
	leaders *runners // of a scene with Election.Lead; not guarded
}

// A point is one frame.
type point struct {
	waits bool // its client is in a call that can be given up
}

func newPlan(w *world, s schedule) *plan {
	return &plan{w: w, todo: s, turn: make(chan struct{}, 1), late: make(map[*pipe]time.Time), calls: make(map[*client][]*call),
		order: fnv.New64a(), healed: w.began}
}

// may returns the kinds of deviations at a point.
func (p point) may() []string {
	if p.waits {
		return kinds
	}
	return kinds[:len(kinds)-1]
}

// loses numbers a frame, deviates as the schedule says, and reports whether the frame is lost. For a reply, op is its
// number.
func (p *plan) loses(k *link, way *pipe, op zkproto.Op, code zkproto.Code) (lost bool) {
	if p == nil || !p.armed || k.line.client >= len(p.w.clients) || op == zkproto.OpPing || op == zkproto.Op(zkproto.XidPing) {
		return false
	}
	c, at := p.w.clients[k.line.client], len(p.points)
	up := way == &k.up
	p.points = append(p.points, point{waits: len(p.calls[c]) > 0})
	fmt.Fprintln(p.order, c.number, up, op, code)
	switch {
	case p.loud && up:
		p.w.tell("%d: client %d sends %v", at, c.number, op)
	case p.loud:
		p.w.tell("%d: to client %d: answer to request %d: %v", at, c.number, op, code)
	}
	for len(p.todo) > 0 && p.todo[0].point == at {
		lost = p.deviate(p.todo[0].kind, c, way) || lost
		p.todo = p.todo[1:]
	}
	return lost
}

const (
	lateBy      = 150 * time.Millisecond
	restartsFor = 300 * time.Millisecond
)

func (p *plan) deviate(kind string, c *client, way *pipe) (lost bool) {
	w := p.w
	w.tell("deviation: %s, client %d", kind, c.number)
	lasts := w.timeout
	soon := func(do func()) { // a moment later, since locks are held now, and one after the other
		time.AfterFunc(1, func() {
			p.turn <- struct{}{}
			defer func() { <-p.turn }()
			do()
		})
	}
	switch kind {
	case "late":
		lasts = lateBy
		p.late[way] = time.Now().Add(lateBy)
	case "lose":
		lost = true
	case "stall", "cut":
		if lasts = w.timeout * 3 / 4; kind == "cut" {
			lasts = 2 * w.timeout
		}
		c.line.cut = cut{true, true}
		time.AfterFunc(lasts, func() { c.line.set(func(ln *line) { ln.cut = cut{} }) })
	case "expire":
		soon(func() { w.expireClient(c) })
	case "kill":
		soon(func() { w.killClient(c) })
	case "restart":
		soon(func() {
			w.servers.crash()
			time.Sleep(restartsFor)
			w.servers.start()
		})
	case "cancel":
		for _, k := range p.calls[c] {
			soon(func() { k.cancel(errEnough) })
		}
	}
	if end := time.Now().Add(lasts); end.After(p.healed) {
		p.healed = end
	}
	return lost
}

// slot is the time between two instants at which frames arrive on one way, and redial that between two at which a
// client may connect again. Each way has its own instants, in microseconds that no other has. So no two frames arrive
// at once, nor does what clients do some milliseconds later come at once, and the random pauses of a client, which are
// shorter than redial, change nothing.
const (
	slot   = 20 * time.Millisecond
	redial = 800 * time.Millisecond
)

// phase is when the instants of a line begin.
func (p *plan) phase(ln *line, up bool) time.Duration {
	at := 2 * ln.client
	if up {
		at++
	}
	return time.Duration(at) * (slot/time.Duration(2*len(ln.net.lines)) + 37*time.Microsecond)
}

// delay returns how long a frame takes that is sent now.
func (p *plan) delay(way *pipe) time.Duration {
	ln := way.link.line
	at := time.Now().Add(time.Millisecond)
	if late, ok := p.late[way]; ok {
		at = late
		delete(p.late, way)
	}
	return time.Until(at) + until(at.Sub(ln.net.began), p.phase(ln, way == &way.link.up), slot)
}

// dials returns how long it takes until a client may connect. Only the first time, it does not pause before.
func (p *plan) dials(ln *line) time.Duration {
	apart := slot
	if ln.attempts > 0 {
		apart = redial
	}
	return until(time.Since(ln.net.began), p.phase(ln, false), apart)
}

// until returns the time from now to the next of the instants that begin with first.
func until(now, first, apart time.Duration) time.Duration {
	return apart - ((now-first)%apart+apart)%apart
}

// A call is an operation that waits, and that its caller can give up.
type call struct{ cancel context.CancelCauseFunc }

// call begins one.
func (p *plan) call(c *client) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	mine, n := &call{cancel}, p.w.net
	n.mu.Lock()
	defer n.mu.Unlock()
	p.begun++
	p.calls[c] = append(p.calls[c], mine)
	return ctx, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		p.calls[c] = slices.DeleteFunc(p.calls[c], func(k *call) bool { return k == mine })
	}
}
