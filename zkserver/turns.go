package zkserver

import (
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/sched"
)

// aloneAfter is a number of batches. If the server heard no other client for so many batches, waiting
// requests go into the next batch while one is committed. Otherwise they go into a batch that is
// committed at once, so that a small request never waits for two commits with them.
const aloneAfter = 16

// applyQueued applies the requests that the readers have queued, except those that must wait for
// their turn.
func (s *Server) applyQueued() {
	o := &s.owner
	items := s.queue.take(o.spare)
	o.now = time.Now()
	for i, r := range items {
		items[i] = nil
		s.arrive(r)
	}
	o.spare = items
	if o.turns.Silence() >= aloneAfter && !o.resting {
		s.applyWaiting()
	}
	s.publish()
}

// arrive applies r, or queues it for its turn.
func (s *Server) arrive(r *request) {
	o, c := &s.owner, r.conn
	switch {
	case c == nil:
		s.handle(r)
		return
	case r.kind == kindResume:
		o.turns.Resume(&c.owned.flow)
		r.recycle()
		return
	}
	work, large := s.large(r)
	ping := r.op == zkproto.OpPing
	if o.turns.Admit(&c.owned.flow, r, work, large || s.batchFull() || s.waitsForTelling(c, r)) {
		s.apply(r)
		if !ping {
			o.turns.Heard(&c.owned.flow)
		}
	} else if sess := c.owned.session; sess != nil && c.owned.admitted && r.kind == kindOperation {
		sess.touched = o.now // its client is not silent
	}
}

// applyWaiting applies waiting requests until the batch is full, or a write has many watchers to notify.
func (s *Server) applyWaiting() {
	o := &s.owner
	for !s.batchFull() && !o.tree.Telling() {
		r, ok := o.turns.Next()
		if !ok {
			return
		}
		s.apply(r)
		o.batch.backlog += o.work
	}
}

// drain applies the waiting requests, which were read before the stop. When none is left, the batch is the
// last.
func (s *Server) drain() {
	s.owner.now = time.Now()
	if s.owner.turns.Drain(func(r *request) (more bool) {
		s.tellAll()
		s.apply(r)
		return !s.batchFull()
	}) {
		s.stopPortions()
		s.owner.stopping = true
	}
}

// apply applies a request of a connection and charges the work to that connection.
func (s *Server) apply(r *request) {
	o, c, room := &s.owner, r.conn, r.room
	o.work = requestWork + len(r.frame)
	s.handle(r) // it recycles r
	o.turns.Charge(&c.owned.flow, o.work)
	c.leaveRoom(room)
}

// turn applies waiting requests and hands over the batch. The caller holds the token of s.idle.
func (s *Server) turn() {
	o, began := &s.owner, time.Now()
	if o.draining {
		s.drain()
	} else if o.turns.Ready() && !s.rest() {
		o.now = began
		s.applyWaiting()
		s.publish()
	}
	backlog := o.batch.backlog
	o.turns.HandedOver()
	if !s.handOver() {
		o.busy = 0 // the owner waits for the committer
		return
	}
	if backlog >= sched.Share {
		s.restUntil = restAfter(began)
	}
	if !o.turns.Ready() {
		o.busy = 0
	} else if o.busy += time.Since(began); o.busy >= longTurns {
		s.restFor(o.busy)
		o.busy = 0
	}
	s.idle <- struct{}{}
}

// longTurns is the time in turns without a pause after which the owner sleeps for as long.
// While no processor is idle, Go polls the network only every 10 ms.
const longTurns = time.Millisecond

// rest reports whether waiting requests must leave this batch to other clients.
func (s *Server) rest() bool {
	o := &s.owner
	if left := time.Until(s.restUntil); left > 0 && !o.resting && !o.stopping && o.turns.Silence() <= 1 {
		s.restFor(left)
	}
	return o.resting
}

// restFor makes waiting requests rest for d.
func (s *Server) restFor(d time.Duration) {
	s.owner.resting = true
	s.owner.restOver.Reset(d)
}
