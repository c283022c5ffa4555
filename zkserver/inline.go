package zkserver

import "time"

// serveInline applies, commits and answers r, an operation, on the goroutine of the connection's
// reader if the server has nothing else to do. Then no other goroutine has to be woken. Otherwise
// serveInline does nothing and returns false, and r goes to the owner by the queue.
//
// The reader reads nothing meanwhile. A client may send the next request before it reads an answer,
// so a connection that may have no buffers is never served inline.
func (s *Server) serveInline(r *request) bool {
	c := r.conn
	if c.now == nil || !s.owning.TryLock() {
		return false
	}
	o := &s.owner
	if o.stopping || o.turns.Ready() || !s.nothingAtHand() || !s.queue.empty() {
		s.owning.Unlock()
		return false
	}
	select {
	case <-s.idle:
	default: // a commit is under way: what comes now goes into one batch
		s.owning.Unlock()
		return false
	}
	o.now = time.Now()
	s.arrive(r)
	s.publish()
	ready := o.turns.Ready() // r has to wait
	o.turns.HandedOver()
	b := s.takeBatch()
	s.owning.Unlock()
	if b != nil && !s.commitNow(b, c) {
		return true // and the server stops
	}
	s.idle <- struct{}{}
	if ready {
		s.queue.again()
	}
	return true
}
