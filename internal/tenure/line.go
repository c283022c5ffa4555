package tenure

import (
	fifo "container/list"
	"context"
	"sync"
	"unique"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// A line is a queue in memory: the goroutines of one client that want one lock. holdfast.WithLocalHandoff calls it the
// local queue. In this package, a queue is always that on the server. Locks have no state of their own, so a key names
// the line: it has everything that makes two locks the same, and their nodes. A line exists only while a goroutine is
// in it, or the client holds the lock through it, or keeps the lock (see keep.go).
//
// One goroutine, contend, joins the queue for all of them. It ends when it has acquired the lock, has failed, or nobody
// waits.
type line struct {
	key Key

	mu         sync.Mutex // guards the fields below; Tenure.mu may be held around it
	waiting    fifo.List  // of *caller, first come first
	contending bool
	giveUp     context.CancelFunc // ends the attempt of contend
	tenure     *Tenure            // that the line hands on; nil while the line does not have the lock
	handoffs   int                // how often the tenure was handed on in a row
}

// A Key names a line of a client. Callers with one key share a node.
type Key struct {
	all  *lines
	lock unique.Handle[string]
	Side names.Side
}

// NewKey returns a key without a side. name has the lock's path and all options that make a difference to the node.
func NewKey(c *zk.Client, name string) Key {
	return Key{all: allLines.Of(c), lock: unique.Make(name)}
}

// A Locker is a lock that is handed on or kept.
type Locker interface {
	// Enter acquires the lock from the ensemble, without a Holder.
	Enter(ctx context.Context, s names.Side) (*Tenure, error)
	// Grant makes the Holder of a caller with ctx. The tenure's mutex may be held.
	Grant(ctx context.Context, t *Tenure) Holder
}

// A caller is one call of Lock in a line.
type caller struct {
	lock  Locker
	ctx   context.Context
	turn  chan turn     // has room, so the sender never waits
	place *fifo.Element // nil once the caller has left; guarded by the line's mu
}

// A turn is what a caller waits for.
type turn struct {
	hold Holder
	err  error
}

// allLines are those of each client.
var allLines zk.Shared[lines]

type lines struct {
	sync.Mutex // guards m; comes before line.mu
	m          map[Key]*line
}

// add adds a line. The mutex must be held.
func (l *lines) add(q *line) {
	if l.m == nil {
		l.m = make(map[Key]*line)
	}
	l.m[q.key] = q
}

// Wait stands in the line k, for a lock, until it is the caller's turn. If the turn comes although ctx has ended, Wait
// returns the Holder beside the cause of ctx, and the caller has to let it go.
func Wait(ctx context.Context, k Key, l Locker) (Holder, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := &caller{lock: l, ctx: ctx, turn: make(chan turn, 1)}
	q := w.stand(k)
	q.serve()
	select {
	case t := <-w.turn:
		if t.hold != nil && ctx.Err() != nil { // a caller that has given up gets no lock
			return t.hold, context.Cause(ctx)
		}
		return t.hold, t.err
	case <-ctx.Done():
		var t turn
		if !q.leave(w) { // our turn has come in this moment
			t = <-w.turn
		}
		return t.hold, context.Cause(ctx)
	}
}

// stand adds w to the back of the line k, and makes the line if there is none.
func (w *caller) stand(k Key) *line {
	all := k.all
	all.Lock()
	defer all.Unlock()
	q := all.m[k]
	if q == nil {
		q = &line{key: k}
		all.add(q)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w.place = q.waiting.PushBack(w)
	q.move()
	return q
}

// move starts contend if somebody waits, unless the line has the lock already. q.mu must be held.
func (q *line) move() {
	if q.waiting.Len() > 0 && !q.contending && q.tenure == nil {
		q.contending = true
		go q.contend()
	}
}

// contend acquires the lock from the ensemble for the waiter that is first by then. Its context is not a
// waiter's: a waiter that gives up must not cost the others their place.
func (q *line) contend() {
	defer q.tidy()
	for {
		q.mu.Lock()
		first := q.waiting.Front()
		if first == nil {
			q.contending = false
			q.mu.Unlock()
			return
		}
		ctx, cancel := context.WithCancel(context.Background())
		q.giveUp = cancel
		q.mu.Unlock()

		t, err := first.Value.(*caller).lock.Enter(ctx, q.key.Side)
		abandoned := ctx.Err() != nil
		cancel()
		switch {
		case err == nil && q.begin(t):
			return
		case err == nil: // everybody has left, or it was lost at once
		case !abandoned:
			q.fail(err)
			return
		}
	}
}

// begin hands t, which contend has acquired, to the first waiter. It returns false if contend must go on: nobody waits,
// or t was lost at once.
func (q *line) begin(t *Tenure) bool {
	q.mu.Lock()
	w := q.next()
	if w == nil {
		q.mu.Unlock()
		t.Drop(nil)
		return false
	}
	q.tenure, q.handoffs, q.contending = t, 0, false
	q.mu.Unlock()

	first := w.lock.Grant(w.ctx, t)
	if !t.handOut(q, first) {
		q.putBack(w)
		return false
	}
	w.turn <- turn{hold: first}
	return true
}

// putBack makes w the first waiter again, because its turn has failed. If its context has ended, w gets
// that error instead: it may already wait for its turn, since leave did not find it in the line (see
// Wait), and nothing would ever remove it.
func (q *line) putBack(w *caller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tenure, q.contending = nil, true
	if w.ctx.Err() != nil {
		w.turn <- turn{err: context.Cause(w.ctx)}
		return
	}
	w.place = q.waiting.PushFront(w)
}

// fail ends the wait of all waiters with err.
func (q *line) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.contending = false
	for w := q.next(); w != nil; w = q.next() {
		w.turn <- turn{err: err}
	}
}

// handOut lets q hand the tenure on, beginning with h. It returns false if the tenure is over.
func (t *Tenure) handOut(q *line, h Holder) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isOver() {
		return false
	}
	t.line = q
	t.beginKeeping()
	t.admit(h)
	return true
}

// handOn gives the tenure to the next waiter when its last Holder has left. It returns false if nobody waits, or if the
// lock must not be handed on any more. Then stay may still keep it. t.mu must be held.
func (t *Tenure) handOn() bool {
	q := t.line
	if q == nil {
		return false
	}
	proven := t.proven()
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.loss != nil || !proven || t.revoked || t.commits > 0 || q.handoffs >= t.Handoffs {
		return false
	}
	w := q.next()
	if w == nil {
		return false
	}
	q.handoffs++
	h := w.lock.Grant(w.ctx, t)
	t.admit(h)
	w.turn <- turn{hold: h}
	return true
}

// leaveLine parts the tenure from its line: the tenure is over, or the lock goes back to the ensemble. The line then
// contends for the lock again if somebody waits. t.mu must be held.
func (t *Tenure) leaveLine() {
	q := t.line
	if q == nil {
		return
	}
	t.line = nil
	q.mu.Lock()
	q.tenure = nil
	q.move()
	q.mu.Unlock()
	q.tidy()
}

// leave removes w from the line. It returns false if w's turn has come already.
func (q *line) leave(w *caller) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.place == nil {
		return false
	}
	q.waiting.Remove(w.place)
	w.place = nil
	if q.waiting.Len() == 0 && q.giveUp != nil {
		q.giveUp() // nobody is left to contend for
	}
	return true
}

// next removes the first waiter and returns it, or nil. q.mu must be held.
func (q *line) next() *caller {
	first := q.waiting.Front()
	if first == nil {
		return nil
	}
	w := q.waiting.Remove(first).(*caller)
	w.place = nil
	return w
}

// tidy drops an empty line. The caller must hold neither allLines nor q.mu; it may hold Tenure.mu.
func (q *line) tidy() {
	all := q.key.all
	all.Lock()
	defer all.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() == 0 && !q.contending && q.tenure == nil && all.m[q.key] == q {
		delete(all.m, q.key)
	}
}
