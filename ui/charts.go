package ui

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/internal/duration"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
)

// A gantt is the picture of the holds of a lock in the last hour.
type gantt struct {
	Rows   []ganttRow
	Ticks  []tick
	Gaps   []bar
	Height int
	Axis   int // y of the labels of the axis
	More   int // owners without a row
}

type ganttRow struct {
	Owner string
	Class string
	Y     int
	Bars  []bar
	Holds int
	Total time.Duration
}

type bar struct {
	X, W float64
	Wait bool
	Open bool
	Text string
}

type tick struct {
	X    float64
	Text string
}

const (
	ganttLeft  = 180.0
	ganttWidth = 900.0
	ganttRowH  = 26
)

func newGantt(turns []turn, gaps []gap, now time.Time) (g gantt) {
	begin := now.Add(-pastFor)
	x := func(t time.Time) float64 {
		return ganttLeft + ganttWidth*max(0, min(1, t.Sub(begin).Seconds()/pastFor.Seconds()))
	}
	by := make(map[string]*ganttRow)
	var order []*ganttRow
	for _, t := range turns {
		name := who(t.Owner, t.Session)
		r := by[name]
		if r == nil {
			r = &ganttRow{Owner: name, Class: hue(name)}
			by[name] = r
			order = append(order, r)
		}
		end := t.Ended
		open := end.IsZero()
		if open {
			end = now
		}
		if !t.Queued.IsZero() {
			until := end
			if !t.Acquired.IsZero() {
				until = t.Acquired
			}
			if w := x(until) - x(t.Queued); w > 0.5 {
				r.Bars = append(r.Bars, bar{X: x(t.Queued), W: w, Wait: true, Text: "waited " + duration.Measured(until.Sub(t.Queued))})
			}
		}
		if !t.Acquired.IsZero() && end.After(begin) {
			from := t.Acquired
			if from.Before(begin) {
				from = begin
			}
			r.Holds++
			r.Total += end.Sub(from)
			r.Bars = append(r.Bars, bar{X: x(from), W: max(1.5, x(end)-x(from)), Open: open, Text: "held for " + duration.Measured(end.Sub(t.Acquired)) + " until " + end.UTC().Format("15:04:05")})
		}
	}
	slices.SortStableFunc(order, func(a, b *ganttRow) int { return int(b.Total.Milliseconds() - a.Total.Milliseconds()) })
	if extra := len(order) - pastOfGraph; extra > 0 {
		g.More, order = extra, order[:pastOfGraph]
	}
	for i, r := range order {
		r.Y = 8 + i*ganttRowH
		g.Rows = append(g.Rows, *r)
	}
	g.Axis = 8 + len(order)*ganttRowH + 16
	g.Height = g.Axis + 10
	for i := 0; i <= 6; i++ {
		at := begin.Add(time.Duration(i) * 10 * time.Minute)
		g.Ticks = append(g.Ticks, tick{x(at), at.UTC().Format("15:04")})
	}
	for _, p := range gaps {
		if p.To.After(begin) {
			g.Gaps = append(g.Gaps, bar{X: x(p.From), W: max(2, x(p.To)-x(p.From)), Text: p.Why})
		}
	}
	return g
}

// A histogram has the number of turns for each range of times.
type histogram struct {
	Name  string
	Bins  []bin
	Total int
	P50   time.Duration
	Most  time.Duration
}

type bin struct {
	Label string
	N     int
	W     float64 // of its bar
	Y     int
}

var bounds = []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, time.Minute, 10 * time.Minute}

func newHistogram(name string, all []time.Duration) histogram {
	h := histogram{Name: name, Total: len(all)}
	labels := []string{"< 1 ms", "< 10 ms", "< 100 ms", "< 1 s", "< 10 s", "< 1 min", "< 10 min", "longer"}
	for i, l := range labels {
		h.Bins = append(h.Bins, bin{Label: l, Y: i * 20})
	}
	for _, d := range all {
		i := 0
		for i < len(bounds) && d >= bounds[i] {
			i++
		}
		h.Bins[i].N++
	}
	most := 1
	for _, b := range h.Bins {
		most = max(most, b.N)
	}
	for i := range h.Bins {
		h.Bins[i].W = 210 * float64(h.Bins[i].N) / float64(most)
		if h.Bins[i].N > 0 {
			h.Bins[i].W = max(2, h.Bins[i].W)
		}
	}
	if len(all) > 0 {
		slices.Sort(all)
		h.P50, h.Most = all[len(all)/2], all[len(all)-1]
	}
	return h
}

func waitsAndHolds(turns []turn) (waits, holds histogram) {
	var w, d []time.Duration
	for _, t := range turns {
		if !t.Queued.IsZero() && !t.Acquired.IsZero() && !t.Bound {
			w = append(w, max(0, t.Acquired.Sub(t.Queued)))
		}
		if !t.Acquired.IsZero() && !t.Bound && !t.Ended.IsZero() {
			d = append(d, t.Ended.Sub(t.Acquired))
		}
	}
	return newHistogram("Waits", w), newHistogram("Holds", d)
}

// graphNodes bounds the picture of the waits.
const graphNodes = 150

type graphBody struct {
	Cycles  []cycleView
	Roots   []rootRow
	Picture picture
	Table   []waitRow
	Waits   int // waits in all
	More    int // waits that are not in the table
}

type cycleView struct {
	Number  int
	Since   time.Time
	Owners  int
	Steps   []stepView
	Victim  string
	Session string
	Holds   int
	Rest    bool
	Threads []string
	Picture picture
	Break   act      // of the place of the victim that the last step waits for
	End     []string // the victim's sessions
}

// An act is an action on a place, by the address of its question, and what to type for it.
type act struct{ Lock, Href, Command string }

type stepView struct{ Owner, Lock, Href, How, Next string }

type waitRow struct {
	Owner, Lock, Href, For string
	Position, Cycle        int
	Since                  time.Time
	Reason                 string
	Any                    bool
}

// A picture is a drawing of boxes and lines.
type picture struct {
	Width, Height int
	Boxes         []box
	Lines         []line
	More          int
}

type box struct {
	X, Y, W     int
	Title, Sub  string
	Class, Href string
	Blocks      int
}

type line struct{ D, Class, Text string }

// named says who an owner is.
func named(g *waitgraph.Blocking, o int) (text, session string) {
	owner := g.Owners[o]
	for _, r := range slices.Concat(owner.Holds, owner.Waits) {
		if text = g.Place(r).Owner; text != "" {
			break
		}
	}
	var all []string
	for _, s := range owner.Sessions {
		all = append(all, locks.SessionText(s))
	}
	session = strings.Join(all, " ")
	if session == "" {
		session = "no session"
	}
	if text == "" {
		text = "session " + session
	}
	return text, session
}

func (u *UI) lockRef(g *waitgraph.Blocking, i int) (name, href string) {
	l := g.Locks[i]
	name = u.name(l.Path)
	if l.Layout != "" && l.Layout != "curator" && l.Layout != "slots" {
		name += " [" + l.Layout + "]"
	}
	return name, u.href(lockKey{l.Path, l.Layout, l.Kind})
}

// mostCycles is how many cycles a page shows.
const mostCycles = 20

// cycle makes the texts of a cycle.
func (u *UI) cycle(v view, i int) cycleView {
	g := v.graph
	c := &g.Cycles[i]
	text, session := named(g, c.Victim)
	x := cycleView{Number: i + 1, Since: c.Since, Owners: len(c.Owners), Victim: text, Session: session, Holds: g.LocksHeld(c.Victim), Rest: c.Rest}
	for j, s := range c.Steps {
		from, _ := named(g, s.Owner)
		to, _ := named(g, c.Steps[(j+1)%len(c.Steps)].Owner)
		name, href := u.lockRef(g, s.Wait.Lock)
		how := "held by"
		switch {
		case s.Any:
			how = fmt.Sprintf("%s of %d permits, one of them held by", g.Some(s.Wait), len(g.Locks[s.Wait.Lock].Permits))
		case !g.Held(s.For):
			how = "in the queue behind"
		}
		x.Steps = append(x.Steps, stepView{from, name, href, how, to})
	}
	for _, o := range c.Threads {
		t, _ := named(g, o)
		x.Threads = append(x.Threads, t)
	}
	x.Picture = ring(x)
	x.Break = u.breaking(v, c.Steps[len(c.Steps)-1])
	for _, s := range g.Owners[c.Victim].Sessions {
		x.End = append(x.End, locks.SessionText(s))
	}
	return x
}

// cyclesAt returns the cycles with an owner that holds the lock at a path or waits for it.
func (u *UI) cyclesAt(v view, path string) (all []cycleView) {
	g := v.graph
	for i, c := range g.Cycles {
		if len(all) < mostCycles && slices.ContainsFunc(c.Owners, func(o int) bool {
			return slices.ContainsFunc(slices.Concat(g.Owners[o].Holds, g.Owners[o].Waits), func(r waitgraph.Ref) bool { return g.Locks[r.Lock].Path == path })
		}) {
			all = append(all, u.cycle(v, i))
		}
	}
	return all
}

// graphOf makes the texts of the wait-for graph.
func (u *UI) graphOf(v view) (b graphBody) {
	g := v.graph
	for i := range min(len(g.Cycles), mostCycles) {
		b.Cycles = append(b.Cycles, u.cycle(v, i))
	}
	for _, r := range g.Roots() {
		text, session := named(g, r.Owner)
		x := rootRow{Owner: text, Session: session, Blocks: r.Blocks, Cycle: g.InCycle[r.Owner]}
		seen := make(map[int]bool)
		for _, h := range g.Owners[r.Owner].Holds {
			blocking := slices.ContainsFunc(g.Below(r.Owner), func(e waitgraph.Edge) bool { return e.Wait.Lock == h.Lock })
			if !seen[h.Lock] && blocking && len(x.Locks) < 4 {
				seen[h.Lock] = true
				name, href := u.lockRef(g, h.Lock)
				x.Locks = append(x.Locks, row{Name: name, Href: href})
			}
		}
		b.Roots = append(b.Roots, x)
	}
	return b
}

// breaking returns the action that takes the place away that a step waits for, or nothing if the place has no token.
func (u *UI) breaking(v view, s waitgraph.Step) act {
	of, node := v.graph.Locks[s.Wait.Lock], v.graph.Place(s.For)
	for _, l := range v.locks {
		if l.Path != of.Path || l.Layout != of.Layout || string(l.Kind) != of.Kind {
			continue
		}
		for _, p := range l.places() {
			if p.Path == node.Node && p.Zxid == node.Zxid && p.Token > 0 {
				return act{u.name(l.Path), question("break", l.key, p.Token), u.command("break", "--token", strconv.FormatInt(p.Token, 10), u.name(l.Path))}
			}
		}
	}
	return act{}
}

func (u *UI) graphPage(r *http.Request, v view, f *frame) {
	f.Title, f.Command = "Who waits for whom", u.command("graph", u.cfg.Prefix)
	b := u.graphOf(v)
	g := v.graph
	for _, e := range g.Edges {
		if b.Waits++; len(b.Table) >= rowsOnPage {
			b.More++
			continue
		}
		owner, _ := named(g, e.Owner)
		to, _ := named(g, e.To)
		name, href := u.lockRef(g, e.Wait.Lock)
		p := g.Place(e.Wait)
		x := waitRow{Owner: owner, Lock: name, Href: href, For: to, Position: g.Position(e.Wait), Since: p.Since, Reason: p.Reason, Any: e.Any}
		if c := g.InCycle[e.Owner]; c > 0 && c == g.InCycle[e.To] {
			x.Cycle = c
		}
		b.Table = append(b.Table, x)
	}
	b.Picture = u.forest(g, v.now)
	if len(b.Roots) > 50 {
		b.Roots = b.Roots[:50]
	}
	f.Body = b
}

const (
	boxW, boxH = 210, 40
	stepX      = 280
	stepY      = 52
)

// forest draws the owners that block others on the left, and those that wait behind them to the right.
func (u *UI) forest(g *waitgraph.Blocking, now time.Time) (p picture) {
	y, deepest := 0, 0
	drawn := make(map[waitgraph.Ref]bool)
	var draw func(owner, depth int, e *waitgraph.Edge) int
	draw = func(owner, depth int, e *waitgraph.Edge) int {
		text, session := named(g, owner)
		deepest = max(deepest, depth)
		x := box{X: depth*stepX + 4, W: boxW, Title: text, Sub: session, Class: "wait"}
		i := len(p.Boxes)
		p.Boxes = append(p.Boxes, x)
		rows := g.Below(owner)
		var middles []int
		if depth < 8 {
			for _, row := range rows {
				if drawn[row.Wait] {
					continue
				}
				drawn[row.Wait] = true
				if len(p.Boxes) >= graphNodes {
					p.More++
					continue
				}
				middles = append(middles, draw(row.Owner, depth+1, &row))
			}
		} else {
			p.More += len(rows)
		}
		own := y*stepY + 4
		if len(middles) > 0 {
			own = middles[0]
		} else {
			y++
		}
		b := &p.Boxes[i]
		b.Y = own
		if e == nil {
			b.Class, b.Blocks = "root", g.Blocked(owner)
			b.Sub = "blocks " + count(b.Blocks, "client")
			if len(rows) > 0 {
				_, b.Href = u.lockRef(g, rows[0].Wait.Lock)
			}
		} else {
			name, href := u.lockRef(g, e.Wait.Lock)
			b.Sub, b.Href = name+" · "+age(now, g.Place(e.Wait).Since), href
		}
		if g.InCycle[owner] > 0 {
			b.Class += " cycle"
		}
		for _, m := range middles {
			x1, y1, x2, y2 := b.X+boxW, own+boxH/2, b.X+stepX, m+boxH/2
			p.Lines = append(p.Lines, line{D: fmt.Sprintf("M%d %d C%d %d %d %d %d %d", x2, y2, x2-35, y2, x1+35, y1, x1+3, y1)})
		}
		return own
	}
	for _, r := range g.Roots() {
		if len(p.Boxes) >= graphNodes {
			p.More += r.Blocks + 1
			continue
		}
		draw(r.Owner, 0, nil)
	}
	p.Width, p.Height = deepest*stepX+boxW+8, y*stepY+4
	return p
}

// ring draws a cycle: its members in a row, each with an arrow to the next, and one back to the first.
func ring(c cycleView) (p picture) {
	n := min(len(c.Steps), 8)
	p.More = len(c.Steps) - n
	for i, s := range c.Steps[:n] {
		x := box{X: 4 + i*stepX, Y: 24, W: boxW, Title: s.Owner, Sub: "waits for " + s.Lock, Class: "cycle", Href: s.Href}
		if i == 0 {
			x.Class = "cycle victim"
		}
		p.Boxes = append(p.Boxes, x)
		if i < n-1 {
			p.Lines = append(p.Lines, line{D: fmt.Sprintf("M%d %d L%d %d", x.X+boxW, 24+boxH/2, x.X+stepX-3, 24+boxH/2), Class: "cycle"})
		}
	}
	last := 4 + (n-1)*stepX + boxW/2
	p.Lines = append(p.Lines, line{D: fmt.Sprintf("M%d %d C%d %d %d %d %d %d", last, 24+boxH, last, 24+boxH+50, 4+boxW/2, 24+boxH+50, 4+boxW/2, 24+boxH+3), Class: "cycle"})
	p.Width, p.Height = (n-1)*stepX+boxW+8, 24+boxH+48
	return p
}
