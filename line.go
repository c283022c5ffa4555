package holdfast

import (
	fifo "container/list"
	"context"
	"slices"
	"sync"
	"time"

	"holdfast/zk"
)

// WithLocalHandoff lets the goroutines of one client that want one lock stand in line in
// memory, behind a single node: when one of them unlocks, the next has the lock without a
// request, up to n times in a row, before it goes back to the ensemble and the line queues
// again, at the back. So who waits elsewhere waits for n+1 tenures at most where it would
// have waited for one; that is why it is not the default. It goes back earlier when nobody
// waits here, or when somebody asks for it (see Revoke).
//
// Those that a lock is handed to share a node, and so a fencing token, and the owner and
// reason that List shows are those of the first. It is for [Mutex] and the write side of
// an [RWMutex], among locks of one path, client, layout and side; it has no effect on other
// locks, nor on TryLock, which fails with ErrLocked while anybody is in line.
func WithLocalHandoff(n int) Option { return func(o *options) { o.handoffs = n } }

// A line is the goroutines of one client that want one lock (see WithLocalHandoff). Locks
// have no state of their own, so it is found by what makes two of them the same lock, and
// is there only while somebody is in it.
//
// One goroutine, contend, queues for all of them on the ensemble. It ends when it has the
// lock, or has failed, or nobody waits any more.
type line struct {
	key lineKey

	mu         sync.Mutex // guards the fields below; tenure.mu may be held around it
	waiting    fifo.List  // of *waiter, first come first
	contending bool
	giveUp     context.CancelFunc // ends the attempt of contend
	tenure     *tenure            // what is handed on; nil while it is not ours
	handoffs   int                // how often it has been
}

type lineKey struct {
	client *zk.Client
	path   string
	queue  string // of the grammar
	side   side
}

// A waiter is one call of Lock that stands in a line.
type waiter struct {
	ctx   context.Context
	queue *queue
	turn  chan turn     // has room, so that whoever hands over never waits
	place *fifo.Element // nil once it is not in line any more; the line's mu guards it
}

// A turn is what a waiter waits for.
type turn struct {
	hold *Hold
	err  error
}

var lines = struct {
	sync.Mutex // guards m; comes before line.mu
	m          map[lineKey]*line
}{m: make(map[lineKey]*line)}

// inMemory says whether those who want side s stand in line. Readers do not: they hold
// the lock together.
func (q *queue) inMemory(s side) bool { return q.handoffs > 0 && s != sideRead }

func (q *queue) lineKey(s side) lineKey { return lineKey{q.client, q.path, q.grammar.queue, s} }

// inLine is Lock with WithLocalHandoff.
func (q *queue) inLine(ctx context.Context, s side) (*Hold, error) {
	if err := validatePath(q.path); err != nil {
		return nil, err
	}
	if held := q.held(ctx); len(held) > 0 {
		return q.again(ctx, held, s)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := &waiter{ctx: ctx, queue: q, turn: make(chan turn, 1)}
	l := w.stand(q.lineKey(s))
	select {
	case t := <-w.turn:
		if t.hold != nil && ctx.Err() != nil { // who has given up gets no lock
			t.hold.letGo(ctx)
			return nil, context.Cause(ctx)
		}
		return t.hold, t.err
	case <-ctx.Done():
		if !l.leave(w) { // our turn has come in this moment
			if t := <-w.turn; t.hold != nil {
				t.hold.letGo(ctx)
			}
		}
		return nil, context.Cause(ctx)
	}
}

// someoneInLine says whether a TryLock of this client would have somebody ahead.
func (q *queue) someoneInLine(s side) bool {
	lines.Lock()
	defer lines.Unlock()
	return lines.m[q.lineKey(s)] != nil
}

// stand goes to the back of the line, and makes it if there is none.
func (w *waiter) stand(key lineKey) *line {
	lines.Lock()
	defer lines.Unlock()
	l := lines.m[key]
	if l == nil {
		l = &line{key: key}
		lines.m[key] = l
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	w.place = l.waiting.PushBack(w)
	l.move()
	return l
}

// leave takes w out of the line; false if its turn has come already.
func (l *line) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.place == nil {
		return false
	}
	l.waiting.Remove(w.place)
	w.place = nil
	if l.waiting.Len() == 0 && l.giveUp != nil {
		l.giveUp() // nobody is left to contend for
	}
	return true
}

// move sees to it that somebody contends for those who wait, unless the lock is among
// them. The caller has locked mu.
func (l *line) move() {
	if l.waiting.Len() > 0 && !l.contending && l.tenure == nil {
		l.contending = true
		go l.contend()
	}
}

// tidy forgets a line that nobody is in. The caller has no lock.
func (l *line) tidy() {
	lines.Lock()
	defer lines.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting.Len() == 0 && !l.contending && l.tenure == nil && lines.m[l.key] == l {
		delete(lines.m, l.key)
	}
}

// next takes the first waiter out of the line. The caller has locked mu.
func (l *line) next() *waiter {
	first := l.waiting.Front()
	if first == nil {
		return nil
	}
	w := l.waiting.Remove(first).(*waiter)
	w.place = nil
	return w
}

// contend gets the lock from the ensemble for whoever is first in line then. Its context
// is nobody's: a waiter that gives up must not cost the others their place in the queue.
func (l *line) contend() {
	defer l.tidy()
	for {
		l.mu.Lock()
		first := l.waiting.Front()
		if first == nil {
			l.contending = false
			l.mu.Unlock()
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		l.giveUp = cancel
		l.mu.Unlock()

		q := first.Value.(*waiter).queue
		h, err := outlive(ctx, func() (*Hold, error) { return q.enter(ctx, l.key.side, true) })
		abandoned := ctx.Err() != nil
		cancel()
		switch {
		case err == nil && l.begin(h):
			return
		case err == nil: // everybody has left, or it was lost at once
		case !abandoned:
			l.fail(err)
			return
		}
	}
}

// fail ends the wait of all who are in line.
func (l *line) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.contending = false
	for w := l.next(); w != nil; w = l.next() {
		w.turn <- turn{err: err}
	}
}

// begin hands a tenure that was got from the ensemble, as h, to the first in line.
func (l *line) begin(h *Hold) bool {
	t := h.tenures[0]
	l.mu.Lock()
	w := l.next()
	if w == nil {
		l.mu.Unlock()
		h.Unlock()
		return false
	}
	l.tenure, l.handoffs, l.contending = t, 0, false
	l.mu.Unlock()

	first := holdOf(w.ctx, t)
	if !t.handOut(l, first) {
		l.putBack(w)
		return false
	}
	h.supersede()
	w.turn <- turn{hold: first}
	return true
}

// putBack makes w the first in line again, because its turn has failed. A waiter whose
// context has ended is told so instead: it may wait for its turn already, since leave did
// not find it in the line (see inLine), and nobody would ever take it out again.
func (l *line) putBack(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tenure, l.contending = nil, true
	if w.ctx.Err() != nil {
		w.turn <- turn{err: context.Cause(w.ctx)}
		return
	}
	w.place = l.waiting.PushFront(w)
}

// handOut makes the tenure one that l hands on, beginning with h; false if it is over.
func (t *tenure) handOut(l *line, h *Hold) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.loss != nil || t.ctx.Err() != nil {
		return false
	}
	t.line = l
	t.admit(h)
	return true
}

// handOn gives the tenure to the next in line when its last Hold was unlocked; false if
// it has to go back to the ensemble. The caller has locked t.mu.
func (t *tenure) handOn() bool {
	l := t.line
	if l == nil {
		return false
	}
	session := t.places[0].session
	proven := session.Context().Err() == nil && time.Now().Before(session.Deadline())
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.loss != nil || !proven || t.revoked || l.handoffs >= t.queue.handoffs {
		return false
	}
	w := l.next()
	if w == nil {
		return false
	}
	l.handoffs++
	h := holdOf(w.ctx, t)
	t.admit(h)
	w.turn <- turn{hold: h}
	return true
}

// leaveLine ends the handing on: the tenure is over, or goes back to the ensemble. The
// caller has locked t.mu.
func (t *tenure) leaveLine() {
	l := t.line
	if l == nil {
		return
	}
	t.line = nil
	l.mu.Lock()
	l.tenure = nil
	l.move()
	l.mu.Unlock()
	l.tidy()
}

// heldBy says whether the tenure is still that of h, or of a Hold that h's context
// descends from. If not, it was handed on to somebody else. The caller has locked t.mu.
func (t *tenure) heldBy(h *Hold) bool {
	for ; h != nil; h = h.outer {
		if slices.Contains(t.holds, h) {
			return true
		}
	}
	return false
}
