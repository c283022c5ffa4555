package terraform

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// A client with -lock-timeout asks again after 1, 2, 4, 8, 16, 16 … seconds, with the same id. Between two requests,
// nothing tells whether it lives. So a line remembers in which order the ids came first, and only those with a
// request at this moment can get the lock: the one that came first is the only one that stands in the lock's queue.

// memory is how long a line remembers an id without a request: longer than the clients' pause.
const memory = 40 * time.Second

// maxRemembered is how many ids all lines remember.
const maxRemembered = 10000

// queues are the lines of all locks, by the paths of the locks.
type queues struct {
	mu    sync.Mutex
	lines map[string]*line
	ids   int // of all lines
}

// A line has the ids that want one lock, in the order of their first requests.
type line struct {
	waiters []*waiter
	changed chan struct{} // closed when the first may be another
}

type waiter struct {
	id      string
	asked   int // requests so far
	seen    time.Time
	request *request // the newest; nil between two
}

// A request is a LOCK that is being answered.
type request struct {
	waiter *waiter
	waits  bool
	cancel context.CancelCauseFunc // of the whole request
	stand  context.CancelFunc      // of its place in the lock's queue; nil while it has none
}

var (
	errSuperseded = errors.New("the client has sent the request again")
	errPollOver   = errors.New("the time of the request is over")
)

// arrive notes a request. Another one of the same id ends: the client has sent it again, or has lost its answer.
func (l *queues) arrive(path, id string, cancel context.CancelCauseFunc) (r *request, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetOld()
	if l.lines == nil {
		l.lines = make(map[string]*line)
	}
	ln := l.lines[path]
	if ln == nil {
		ln = &line{changed: make(chan struct{})}
		l.lines[path] = ln
	}
	i := slices.IndexFunc(ln.waiters, func(w *waiter) bool { return w.id == id })
	if i < 0 {
		i = len(ln.waiters)
		ln.waiters = append(ln.waiters, &waiter{id: id})
		l.ids++
	}
	w := ln.waiters[i]
	if w.request != nil {
		w.request.cancel(errSuperseded)
	}
	w.asked++
	w.seen = time.Now()
	w.request = &request{waiter: w, cancel: cancel}
	return w.request, w.asked == 1
}

// depart ends a request. done means that the id does not ask again.
func (l *queues) depart(path string, r *request, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ln := l.lines[path]
	r.waits = false
	if ln == nil || r.waiter.request != r {
		return // a newer request of the id has its place
	}
	r.waiter.request = nil
	r.waiter.seen = time.Now()
	if done {
		l.drop(path, ln, r.waiter)
	}
	ln.rearrange()
}

// drop forgets a waiter. l.mu must be held.
func (l *queues) drop(path string, ln *line, w *waiter) {
	if i := slices.Index(ln.waiters, w); i >= 0 {
		ln.waiters = slices.Delete(ln.waiters, i, i+1)
		l.ids--
	}
	if len(ln.waiters) == 0 {
		delete(l.lines, path)
	}
}

// forgetOld forgets ids that ask no more, and the oldest ones if there are too many. l.mu must be held.
func (l *queues) forgetOld() {
	for path, ln := range l.lines {
		for _, w := range slices.Clone(ln.waiters) {
			if w.request == nil && (time.Since(w.seen) > memory || l.ids >= maxRemembered) {
				l.drop(path, ln, w)
			}
		}
	}
}

// waiting counts the ids that want the lock, besides one.
func (l *queues) waiting(path, besides string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ln := l.lines[path]; ln != nil {
		for _, w := range ln.waiters {
			if w.id != besides && w.asked > 1 && time.Since(w.seen) <= memory {
				n++
			}
		}
	}
	return n
}

// current reports whether r is the newest request of its id. acquired calls it before the lock is granted.
func (l *queues) current(r *request) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return r.waiter.request == r
}

// first returns the request that came first and lives. l.mu must be held.
func (ln *line) first() *request {
	for _, w := range ln.waiters {
		if w.request != nil && w.request.waits {
			return w.request
		}
	}
	return nil
}

// rearrange wakes the requests, and takes a request out of the lock's queue that is not the first any more. l.mu must
// be held.
func (ln *line) rearrange() {
	first := ln.first()
	for _, w := range ln.waiters {
		if r := w.request; r != nil && r != first && r.stand != nil {
			r.stand()
		}
	}
	close(ln.changed)
	ln.changed = make(chan struct{})
}

// wait calls lock when it is r's turn, and again if r lost its turn to one that came earlier. lock returns nil when
// it holds the lock.
func (l *queues) wait(ctx context.Context, path string, r *request, lock func(context.Context) error) error {
	l.mu.Lock()
	r.waits = true
	ln := l.lines[path]
	if ln == nil || r.waiter.request != r {
		l.mu.Unlock()
		return errSuperseded
	}
	ln.rearrange()
	l.mu.Unlock()
	for {
		l.mu.Lock()
		turn, changed := ln.first() == r, ln.changed
		stand, cancel := context.WithCancel(ctx)
		if turn {
			r.stand = cancel
		}
		l.mu.Unlock()
		if !turn {
			cancel()
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		err := lock(stand)
		l.mu.Lock()
		r.stand = nil
		l.mu.Unlock()
		passed := stand.Err() != nil && ctx.Err() == nil
		cancel()
		if err == nil || !passed {
			return err
		}
	}
}
