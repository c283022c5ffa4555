package holdfast

import (
	fifo "container/list"
	"context"
	"sync"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// WithLocalHandoff lets the goroutines of one client that want one lock queue in memory, behind a single
// node. When one of them unlocks, the next acquires the lock without a request, up to n times in a row.
// Then the lock goes back to the ensemble, and the local queue joins again, at the back. So a waiter
// elsewhere waits for at most n+1 tenures where it would have waited for one. That is why the default is 0.
// The lock goes back earlier if nobody waits here, or if somebody asks for it (see Revoke).
//
// The Holds of one node share its fencing token. A local queue is of locks of one path, client and side with the same options;
// only [WithObserver] and [Reentrant] may differ. TryLock fails with ErrLocked while the local queue is not empty.
func WithLocalHandoff(n int) Option {
	return func(o *options) {
		o.handoffs = max(n, 0)
		setNumber(o, setHandoff, n, n > 0)
	}
}

// A localQueue is the goroutines of one client that want one lock (see WithLocalHandoff). Locks have no
// state of their own, so a key identifies it: everything that makes two locks the same, and their nodes. It exists only
// while a goroutine is in it, or the client keeps the lock (see keep.go).
//
// One goroutine, contend, queues for all of them on the ensemble. It ends when it has acquired the lock,
// has failed, or nobody waits.
type localQueue struct {
	client *zk.Client
	key    localKey

	mu         sync.Mutex // guards the fields below; tenure.mu may be held around it
	waiting    fifo.List  // of *waiter, first come first
	contending bool
	giveUp     context.CancelFunc // ends the attempt of contend
	tenure     *tenure            // is handed on; nil while we do not hold the lock
	handoffs   int                // how often it was handed on
}

type localKey struct {
	path  string
	queue string // of the grammar
	side  names.Side
	line  string // of the options
}

// A waiter is one call of Lock in a local queue.
type waiter struct {
	ctx   context.Context
	lock  *lock
	turn  chan turn     // has room, so the sender never waits
	place *fifo.Element // nil once the waiter has left; guarded by the localQueue's mu
}

// A turn is what a waiter waits for.
type turn struct {
	hold *Hold
	err  error
}

// localQueues are those of each client.
var localQueues zk.Shared[localQueueing]

type localQueueing struct {
	sync.Mutex // guards m; comes before localQueue.mu
	m          map[localKey]*localQueue
}

// add adds a queue. The mutex must be held.
func (l *localQueueing) add(q *localQueue) {
	if l.m == nil {
		l.m = make(map[localKey]*localQueue)
	}
	l.m[q.key] = q
}

// handsOff reports whether calls for side s use the local queue. Readers do not: they hold the lock
// together.
func (l *lock) handsOff(s names.Side) bool { return (l.handoffs > 0 || l.keep > 0) && s != names.Read }

func (l *lock) localKey(s names.Side) localKey {
	return localKey{l.Path, l.Grammar.Queue, s, l.line}
}

// waitLocally implements Lock with WithLocalHandoff or WithKeep.
func (l *lock) waitLocally(ctx context.Context, s names.Side) (*Hold, error) {
	if err := l.valid(); err != nil {
		return nil, err
	}
	if held := l.held(ctx); len(held) > 0 {
		return l.again(ctx, held, s)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w := &waiter{ctx: ctx, lock: l, turn: make(chan turn, 1)}
	q := w.stand(l.localKey(s))
	q.serve()
	select {
	case t := <-w.turn:
		if t.hold != nil && ctx.Err() != nil { // a caller that has given up gets no lock
			t.hold.letGo(ctx)
			return nil, context.Cause(ctx)
		}
		return t.hold, t.err
	case <-ctx.Done():
		if !q.leave(w) { // our turn has come in this moment
			if t := <-w.turn; t.hold != nil {
				t.hold.letGo(ctx)
			}
		}
		return nil, context.Cause(ctx)
	}
}

// stand adds w to the back of its local queue, and makes the queue if there is none.
func (w *waiter) stand(key localKey) *localQueue {
	all := localQueues.Of(w.lock.Client)
	all.Lock()
	defer all.Unlock()
	q := all.m[key]
	if q == nil {
		q = &localQueue{client: w.lock.Client, key: key}
		all.add(q)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w.place = q.waiting.PushBack(w)
	q.move()
	return q
}

// leave removes w from the queue. It returns false if w's turn has come already.
func (q *localQueue) leave(w *waiter) bool {
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

// move starts contend if somebody waits, unless the queue has the lock already. q.mu must be held.
func (q *localQueue) move() {
	if q.waiting.Len() > 0 && !q.contending && q.tenure == nil {
		q.contending = true
		go q.contend()
	}
}

// tidy drops an empty queue. The caller must hold neither localQueues nor q.mu; it may hold tenure.mu.
func (q *localQueue) tidy() {
	all := localQueues.Of(q.client)
	all.Lock()
	defer all.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() == 0 && !q.contending && q.tenure == nil && all.m[q.key] == q {
		delete(all.m, q.key)
	}
}

// next removes the first waiter. q.mu must be held.
func (q *localQueue) next() *waiter {
	first := q.waiting.Front()
	if first == nil {
		return nil
	}
	w := q.waiting.Remove(first).(*waiter)
	w.place = nil
	return w
}

// contend acquires the lock from the ensemble for the waiter that is first by then. Its context is not a
// waiter's: a waiter that gives up must not cost the others their place.
func (q *localQueue) contend() {
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

		l := first.Value.(*waiter).lock
		h, err := outlive(ctx, func() (*Hold, error) { return l.enter(ctx, q.key.side, true) })
		abandoned := ctx.Err() != nil
		cancel()
		switch {
		case err == nil && q.begin(h):
			return
		case err == nil: // everybody has left, or it was lost at once
		case !abandoned:
			q.fail(err)
			return
		}
	}
}

// fail ends the wait of all waiters with err.
func (q *localQueue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.contending = false
	for w := q.next(); w != nil; w = q.next() {
		w.turn <- turn{err: err}
	}
}

// begin hands the tenure of h, which contend has acquired, to the first waiter.
func (q *localQueue) begin(h *Hold) bool {
	t := h.tenures[0]
	q.mu.Lock()
	w := q.next()
	if w == nil {
		q.mu.Unlock()
		h.Unlock()
		return false
	}
	q.tenure, q.handoffs, q.contending = t, 0, false
	q.mu.Unlock()

	first := holdOf(w.ctx, t)
	if !t.handOut(q, first) {
		q.putBack(w)
		return false
	}
	h.supersede()
	w.turn <- turn{hold: first}
	return true
}

// putBack makes w the first waiter again, because its turn has failed. If its context has ended, w gets
// that error instead: it may already wait for its turn, since leave did not find it in the queue (see
// waitLocally), and nothing would ever remove it.
func (q *localQueue) putBack(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tenure, q.contending = nil, true
	if w.ctx.Err() != nil {
		w.turn <- turn{err: context.Cause(w.ctx)}
		return
	}
	w.place = q.waiting.PushFront(w)
}

// handOut lets q hand the tenure on, beginning with h. It returns false if the tenure is over.
func (t *tenure) handOut(q *localQueue, h *Hold) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.isOver() {
		return false
	}
	t.local = q
	t.beginKeeping()
	t.admit(h)
	return true
}

// handOn gives the tenure to the next waiter when its last Hold was unlocked. It returns false if the lock
// has to go back to the ensemble. t.mu must be held.
func (t *tenure) handOn() bool {
	q := t.local
	if q == nil {
		return false
	}
	proven := t.proven()
	q.mu.Lock()
	defer q.mu.Unlock()
	if t.loss != nil || !proven || t.revoked || q.handoffs >= t.lock.handoffs {
		return false
	}
	w := q.next()
	if w == nil {
		return false
	}
	q.handoffs++
	h := holdOf(w.ctx, t)
	t.admit(h)
	w.turn <- turn{hold: h}
	return true
}

// leaveLocal ends the handing on: the tenure is over, or the lock goes back to the ensemble. t.mu must be
// held.
func (t *tenure) leaveLocal() {
	q := t.local
	if q == nil {
		return
	}
	t.local = nil
	q.mu.Lock()
	q.tenure = nil
	q.move()
	q.mu.Unlock()
	q.tidy()
}
