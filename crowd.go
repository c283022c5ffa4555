package holdfast

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"holdfast/zk"
)

// A crowd is the places of one session that wait in one queue. Each has to know from a list
// of the queue whom it waits for, and a list is as long as the queue. While they are few,
// each lists for itself, in the flush of its create. When they are many, the queue is long,
// and they share: who asks for a list waits until one is there that was sent after it had
// asked, and that one serves all who had asked by then.
//
// That is as good as a list of one's own. Who asks has the answer to its create, so whatever
// server the session is on by the time of the list shows that node, and everybody who
// came before it; and whose node is not on it lists for itself before it takes its place
// for lost. Who asks again, because somebody ahead has gone, gets a list from after that.
//
// Who has just come does not even need a list at once, as long as it is certain that
// somebody else's turn comes first: a place of the same session that stands ahead, and
// that itself waits for somebody. So no list is sent before there are more who ask than
// who know whom they wait for: each list serves half of the crowd or more, and what a join
// has to read does not grow with the queue. This is not for readers: between one that
// waits ahead and us there may be nobody that we must wait for, once its node has been
// removed by hand.
type crowd struct {
	grammar *grammar // of all of them

	mu       sync.Mutex              // guards the fields below
	asking   map[*place]chan<- *roll // who want a list that is not sent yet
	covered  map[*place]chan<- *roll // who had asked when the list that is on its way was sent
	urgent   int                     // of asking: who have nobody ahead that is known to wait
	standing int                     // places that waited for somebody when they last looked together
	reach    int32                   // none of those has a later number than this
}

// musters are how many places of a session wait in a queue, and what they are from when they
// are many.
var musters = struct {
	sync.Mutex // guards m; not held together with crowd.mu
	m          map[musterKey]muster
}{m: make(map[musterKey]muster)}

type musterKey struct {
	session *zk.Session
	dir     string
}

type muster struct {
	places int
	crowd  *crowd // nil as long as they are few
}

// manyPlaces is how many places of one session in one queue list for themselves: as many
// as there are in a queue that is not long.
var manyPlaces = longQueue

// enroll counts p among those that wait.
func (p *place) enroll() {
	key := musterKey{p.session, p.dir}
	musters.Lock()
	defer musters.Unlock()
	m := musters.m[key]
	m.places++
	musters.m[key] = m
	p.waits = true
}

// inCrowd reports whether p shares its lists.
func (p *place) inCrowd() bool {
	if !p.waits {
		return false
	}
	key := musterKey{p.session, p.dir}
	musters.Lock()
	defer musters.Unlock()
	m := musters.m[key]
	if m.places <= manyPlaces {
		return false
	}
	if m.crowd == nil {
		m.crowd = &crowd{grammar: p.queue.grammar}
		musters.m[key] = m
	}
	if m.crowd.grammar.queue != p.queue.grammar.queue {
		return false // it sees another queue among the same names
	}
	p.crowd = m.crowd
	return true
}

// disband ends what enroll began: p does not wait any more.
func (p *place) disband() {
	if !p.waits {
		return
	}
	p.waits = false
	key := musterKey{p.session, p.dir}
	musters.Lock()
	m := musters.m[key]
	if m.places--; m.places == 0 {
		delete(musters.m, key)
	} else {
		musters.m[key] = m
	}
	musters.Unlock()

	if c := p.crowd; c != nil {
		p.crowd = nil
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forget(p)
		c.move()
	}
}

// forget takes p for one of whom nothing is known. The caller has locked mu.
func (c *crowd) forget(p *place) {
	if _, ok := c.asking[p]; ok && p.urgent {
		c.urgent--
	}
	delete(c.asking, p)
	delete(c.covered, p)
	if p.standing {
		p.standing = false
		c.standing--
	}
}

// lookTogether gets a list that p shares, at once: who has stood in the queue before has a
// reason to look.
func (p *place) lookTogether(ctx context.Context) (ahead, error) {
	p.crowd.ask(p, false)
	err := p.share(ctx)
	return p.watch.ahead, err
}

// share waits for the list that p has asked for, and takes note of who is ahead. That may
// take as long as others are ahead, so there is little on the stack meanwhile (see await).
func (p *place) share(ctx context.Context) error {
	answer := p.answer
	p.answer = nil
	select {
	case r := <-answer:
		return p.called(ctx, r)
	case <-p.session.Context().Done():
		return context.Cause(p.session.Context())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// called finds out who is ahead on the list that has come.
func (p *place) called(ctx context.Context, r *roll) (err error) {
	if r.err != nil {
		return r.err
	}
	p.seen(r.names)
	p.watch.ahead, err = r.ahead(p.queue.grammar, p.name)
	switch {
	case errors.Is(err, errPlaceGone):
		p.watch.ahead, err = p.lookAlone(ctx)
	case err == nil && !p.known:
		p.known, err = r.kind == nil, r.kind
	}
	return err
}

// ask has p get a list. A place that is new in the queue can wait for it as long as others
// are ahead.
func (c *crowd) ask(p *place, isNew bool) {
	answer := make(chan *roll, 1) // the one who lists never waits
	p.answer = answer
	mine, _ := p.queue.grammar.parse(p.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forget(p)
	if c.asking == nil {
		c.asking = make(map[*place]chan<- *roll)
	}
	c.asking[p] = answer
	p.seq = mine.seq
	// Others can have been quicker to take the answers to their creates, and even have
	// a list by now on which they are behind us.
	p.urgent = !isNew || p.shared || c.standing > 0 && !before(c.reach, p.seq)
	if p.urgent {
		c.urgent++
	}
	c.move()
}

// move sends for a list if it is time to. It is called whenever somebody has asked, a list
// has come, or a place waits no more. The caller has locked mu.
func (c *crowd) move() {
	if c.covered != nil || len(c.asking) == 0 || c.urgent == 0 && len(c.asking) <= c.standing {
		return
	}
	c.covered, c.asking, c.urgent = c.asking, nil, 0
	for p := range c.covered {
		go c.list(p)
		break
	}
}

// list gets a list for all who are covered, through any one of them. It ends when the list
// is there or the session over, whoever has stopped waiting meanwhile.
func (c *crowd) list(through *place) {
	names, err := through.siblings(through.session.Context())
	r := newRoll(c.grammar, names)
	if r.err = err; r.others > 0 { // looked into once, for all of them
		r.kind = through.queue.checkKind(through.session.Context(), names)
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	for p, answer := range c.covered {
		c.serve(p, answer, r)
	}
	c.covered = nil
	if err == nil {
		// Who is ahead of any of those was made before them, so it is on the list, too. If
		// it had to wait for another, they might all wait for it meanwhile, and it for them.
		for p, answer := range c.asking {
			if c.standing > 0 && !p.urgent && !before(c.reach, p.seq) {
				delete(c.asking, p)
				c.serve(p, answer, r)
			}
		}
	}
	c.move()
}

// serve gives p the list. The caller has locked mu.
func (c *crowd) serve(p *place, answer chan<- *roll, r *roll) {
	answer <- r
	if r.err != nil {
		return
	}
	if c.standing == 0 || before(c.reach, p.seq) {
		c.reach = p.seq
	}
	p.standing = true
	c.standing++
}

// A roll is a list of a queue, in order, for many to find their places in.
type roll struct {
	names []string
	queue []contender
	ref   int32 // the numbers count from this
	err   error

	others int   // names that have no place in the queue
	kind   error // the name is that of another kind of lock, too
}

// newRoll puts names in order. Serial numbers have one only if all of them are within half
// of what there are; otherwise the roll has none (somebody has made a node by hand).
func newRoll(g *grammar, names []string) *roll {
	r := &roll{names: names, queue: make([]contender, 0, len(names))}
	for _, name := range names {
		if c, ok := g.parse(name); ok {
			r.queue = append(r.queue, c)
		}
	}
	r.others = len(names) - len(r.queue)
	if len(r.queue) == 0 {
		return r
	}
	r.ref = r.queue[0].seq
	slices.SortFunc(r.queue, r.compare)
	first, last := r.queue[0].seq-r.ref, r.queue[len(r.queue)-1].seq-r.ref
	if int64(last)-int64(first) > 1<<31-1 {
		r.queue = nil
	}
	return r
}

func (r *roll) compare(a, b contender) int { return cmp.Compare(a.seq-r.ref, b.seq-r.ref) }

// ahead is what grammar.ahead says of the names, without a look at all of them.
func (r *roll) ahead(g *grammar, me string) (ahead, error) {
	mine, ok := g.parse(me)
	if !ok || r.queue == nil {
		return g.ahead(r.names, me)
	}
	first, _ := slices.BinarySearchFunc(r.queue, mine, r.compare)
	present, twin := false, false
	for _, c := range r.queue[first:] {
		if c.seq != mine.seq {
			break
		}
		present = present || c.name == me
		twin = twin || c.name != me && !(c.shared && mine.shared)
	}
	var near, far contender
	for i := first - 1; i >= 0 && far.name == ""; i-- {
		switch c := r.queue[i]; {
		case !mine.waitsFor(c):
		case near.name == "":
			near = c
		default:
			far = c
		}
	}
	return g.aheadOf(mine, near, far, present, twin)
}
