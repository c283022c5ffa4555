package names

import (
	"cmp"
	"slices"
)

// A List is one listing of a queue, sorted once so that many waiters can find their places in it.
type List struct {
	Others int // children that have no place in the queue

	names []string
	queue []Contender // by number; nil if the numbers have no order
	first int32       // numbers count from this one
}

// NewList sorts names. Serial numbers have an order only if all of them are within half of their
// range. Only nodes that somebody makes by hand can be further apart.
func (g *Grammar) NewList(names []string) *List {
	l := &List{names: names, queue: make([]Contender, 0, len(names))}
	for _, name := range names {
		if c, ok := g.Parse(name); ok {
			l.queue = append(l.queue, c)
		}
	}
	l.Others = len(names) - len(l.queue)
	if len(l.queue) == 0 {
		return l
	}
	l.first = l.queue[0].Seq
	slices.SortFunc(l.queue, l.compare)
	least, most := l.queue[0].Seq-l.first, l.queue[len(l.queue)-1].Seq-l.first
	if int64(most)-int64(least) > 1<<31-1 {
		l.queue = nil
	}
	return l
}

func (l *List) compare(a, b Contender) int { return cmp.Compare(a.Seq-l.first, b.Seq-l.first) }

// AheadIn is Ahead for a sorted list. It does not look at every name.
func (g *Grammar) AheadIn(l *List, me string) (Ahead, error) {
	mine, ok := g.Parse(me)
	if !ok || l.queue == nil {
		return g.Ahead(l.names, me)
	}
	first, _ := slices.BinarySearchFunc(l.queue, mine, l.compare)
	present, twin := false, false
	for _, c := range l.queue[first:] {
		if c.Seq != mine.Seq {
			break
		}
		present = present || c.Name == me
		twin = twin || c.Name != me && !(c.Shared && mine.Shared)
	}
	var near, far Contender
	for i := first - 1; i >= 0 && far.Name == ""; i-- {
		switch c := l.queue[i]; {
		case !mine.WaitsFor(c):
		case near.Name == "":
			near = c
		default:
			far = c
		}
	}
	return g.aheadOf(mine, near, far, present, twin)
}
