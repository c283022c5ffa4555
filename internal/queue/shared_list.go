package queue

import (
	"context"
	"errors"
	"sync"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A group is the places of one session that wait in one queue. Each needs a list of the queue to learn
// who is ahead, and a list is as long as the queue. While the places are few, each lists for itself, in
// the flush of its create. When they are many, the queue is long, and they share: a place that asks
// waits for a list that is sent after it has asked, and that list serves all that have asked by then.
//
// A shared list is as good as a place's own. A place that asks has the answer to its create. So any
// server that the session reaches later shows that node, and every earlier node. A place whose node is
// not on the list lists for itself before it believes that it is lost. A place that asks again, because
// somebody ahead has gone, gets a younger list.
//
// A new place does not need a list at once while it is certain that somebody else's turn comes first: a
// place of the same session that is ahead and that itself waits. So no list is sent before more places
// ask than know whom they wait for. Each list serves half of the group or more, and the cost of a join
// does not grow with the queue. Readers get a list at once: a waiting reader ahead proves nothing, once
// somebody has removed its node by hand.
type group struct {
	grammar *names.Grammar // of all of them
	outer   bool           // all of them are parts of a lock that has another path; see Surround

	mu      sync.Mutex                    // guards the fields below
	asking  map[*Place]chan<- *sharedList // places that want a list that is not sent yet
	covered map[*Place]chan<- *sharedList // places that had asked when the list under way was sent
	urgent  int                           // of asking: places without a waiting place ahead
	waiting int                           // places that waited for somebody when they last looked
	reach   int32                         // the largest number of those that wait
}

// groups count the places of each session that wait in each queue.
var groups zk.Shared[grouping]

type grouping struct {
	sync.Mutex                    // guards m; not held together with group.mu
	m          map[string]counted // by directory
}

type counted struct {
	places int
	group  *group // nil while they are few
}

// ShareFrom is the number of waiting places of one session in one queue beyond which they share their
// lists. Tests lower it.
var ShareFrom = 32

// sharing is the part of a Place that shares lists.
type sharing struct {
	counts bool   // the place is counted among groups
	group  *group // that it shares lists with; nil: none. Its mu guards the next three fields:
	seq    int32  // the place's number
	urgent bool   // it needs a list at once
	waits  bool   // it is counted in group.waiting

	answer <-chan *sharedList // the list that it has asked for; nil: none
}

// enroll counts p among the places that wait.
func (p *Place) enroll() {
	all := groups.In(p.Session)
	all.Lock()
	defer all.Unlock()
	if all.m == nil {
		all.m = make(map[string]counted)
	}
	c := all.m[p.Dir]
	c.places++
	all.m[p.Dir] = c
	p.counts = true
}

// shares reports whether p shares its lists.
func (p *Place) shares() bool {
	if !p.counts || p.Queue.Grammar.Bare() { // see withoutDirectories
		return false
	}
	all := groups.In(p.Session)
	all.Lock()
	defer all.Unlock()
	c := all.m[p.Dir]
	if c.places <= ShareFrom {
		return false
	}
	if c.group == nil {
		c.group = &group{grammar: p.Queue.Grammar, outer: p.Queue.outer != nil}
		all.m[p.Dir] = c
	}
	if c.group.grammar.Queue != p.Queue.Grammar.Queue || c.group.outer != (p.Queue.outer != nil) {
		return false // it sees another queue among the same names, or has to look elsewhere
	}
	p.group = c.group
	return true
}

// unshare ends what enroll began: p does not wait any more.
func (p *Place) unshare() {
	if !p.counts {
		return
	}
	p.counts = false
	all := groups.In(p.Session)
	all.Lock()
	c := all.m[p.Dir]
	if c.places--; c.places == 0 {
		delete(all.m, p.Dir)
	} else {
		all.m[p.Dir] = c
	}
	all.Unlock()

	if g := p.group; g != nil {
		p.group = nil
		g.mu.Lock()
		defer g.mu.Unlock()
		g.forget(p)
		g.send()
	}
}

// share waits for the list that p has asked for, and notes who is ahead. That may take as long as
// others are ahead, so there is little on the stack meanwhile (see await).
func (p *Place) share(ctx context.Context) error {
	answer := p.answer
	p.answer = nil
	select {
	case l := <-answer:
		return p.read(ctx, l)
	case <-p.Session.Context().Done():
		return context.Cause(p.Session.Context())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read reads p's position from the shared list.
func (p *Place) read(ctx context.Context, l *sharedList) (err error) {
	if l.err != nil {
		return l.err
	}
	p.sawList(l.length)
	p.ahead, err = p.Queue.Grammar.AheadIn(l.List, p.Name())
	switch {
	case errors.Is(err, ErrGone):
		p.ahead, err = p.lookAlone(ctx)
	case err == nil && !p.onlyKind:
		if err = l.kind; err == nil && !l.looked {
			err = p.Queue.CheckAround(ctx, p.Session, nil)
		}
		p.onlyKind = err == nil
	}
	return err
}

// ask asks for a list for p. A place that is new in the queue can wait for it as long as others are
// ahead.
func (g *group) ask(p *Place, isNew bool) {
	answer := make(chan *sharedList, 1) // the sender never waits
	p.answer = answer
	mine, _ := p.Queue.Grammar.Parse(p.Name())
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forget(p)
	if g.asking == nil {
		g.asking = make(map[*Place]chan<- *sharedList)
	}
	g.asking[p] = answer
	p.seq = mine.Seq
	// Others may have been quicker to take the answers to their creates, and may already have a list
	// on which they are behind us.
	p.urgent = !isNew || p.Shared || g.waiting > 0 && !names.Before(g.reach, p.seq)
	if p.urgent {
		g.urgent++
	}
	g.send()
}

// forget drops p from the bookkeeping. g.mu must be held.
func (g *group) forget(p *Place) {
	if _, ok := g.asking[p]; ok && p.urgent {
		g.urgent--
	}
	delete(g.asking, p)
	delete(g.covered, p)
	if p.waits {
		p.waits = false
		g.waiting--
	}
}

// send sends for a list if it is time to. It is called whenever a place has asked, a list has come, or
// a place waits no more. g.mu must be held.
func (g *group) send() {
	if g.covered != nil || len(g.asking) == 0 || g.urgent == 0 && len(g.asking) <= g.waiting {
		return
	}
	g.covered, g.asking, g.urgent = g.asking, nil, 0
	looks := false
	var through *Place
	for p := range g.covered {
		looks, through = looks || !p.onlyKind, p
	}
	go g.list(through, looks)
}

// list gets a list for all places that are covered, through one of them. looks: one of them does not know yet what
// is around the queue. list ends when the list is there or the session is over, whatever has stopped waiting
// meanwhile.
func (g *group) list(through *Place, looks bool) {
	ctx, q := through.Session.Context(), through.Queue
	listed, around, err := through.listAround(ctx, looks)
	l := &sharedList{List: g.grammar.NewList(listed), length: len(listed), err: err, looked: looks}
	if l.Others > 0 { // looked into once, for all of them
		l.kind = q.CheckKind(ctx, listed)
	}
	if looks && l.err == nil && l.kind == nil {
		l.kind = q.CheckAround(ctx, through.Session, around)
	}

	g.mu.Lock()
	defer g.mu.Unlock()
	for p, answer := range g.covered {
		g.serve(p, answer, l)
	}
	g.covered = nil
	if err == nil {
		// Every place ahead of a served one was made before it, so it is on the list, too. If it had to
		// wait for another list, they might all wait for it meanwhile, and it for them.
		for p, answer := range g.asking {
			if g.waiting > 0 && !p.urgent && !names.Before(g.reach, p.seq) {
				delete(g.asking, p)
				g.serve(p, answer, l)
			}
		}
	}
	g.send()
}

// serve gives p the list. g.mu must be held.
func (g *group) serve(p *Place, answer chan<- *sharedList, l *sharedList) {
	answer <- l
	if l.err != nil {
		return
	}
	if g.waiting == 0 || names.Before(g.reach, p.seq) {
		g.reach = p.seq
	}
	p.waits = true
	g.waiting++
}

// A sharedList is a list of a queue that serves many places.
type sharedList struct {
	*names.List
	length int
	err    error
	kind   error // the name is that of another kind of lock, too
	looked bool  // kind includes what is around the queue
}
