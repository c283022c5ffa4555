package zkserver

import "time"

// inlineRequests and inlineWrites are the most requests of one client that are served inline together, and the most
// writes among them. A client that sends more writes at a time is faster through the owner: it sends some while
// others are committed. A lock sends a write with as many reads as its path has parts.
const (
	inlineRequests = 8
	inlineWrites   = 4
)

// mayServeInline reports whether the next small requests may be served inline: the connection has
// no other requests, and has buffers. Without buffers, a client that sends its next request
// before it reads an answer would block for ever.
func (c *conn) mayServeInline() bool {
	return c.now != nil && len(c.slots) == 0 && cap(c.slots) >= inlineWrites && c.penalties.Load() == 0
}

// serveInline applies, commits and answers requests of c on the goroutine of its reader if the
// server has nothing else to do. This wakes no other goroutine. Otherwise serveInline does nothing
// and returns false.
func (s *Server) serveInline(c *conn, group []*request) bool {
	if !s.owning.TryLock() {
		return false
	}
	o := &s.owner
	if o.draining || o.turns.Ready() || !s.nothingAtHand() || !s.queue.empty() {
		s.owning.Unlock()
		return false
	}
	select {
	case <-s.idle:
	default: // a commit is under way, and one sync will serve all requests that arrive meanwhile
		s.owning.Unlock()
		return false
	}
	o.now = time.Now()
	for _, r := range group {
		s.arrive(r)
	}
	s.publish()
	waits := o.turns.Ready()
	o.turns.HandedOver()
	b := s.takeBatch()
	s.owning.Unlock()
	if b != nil && !s.commitNow(b, c) {
		return true // and the server stops
	}
	s.idle <- struct{}{}
	if waits {
		s.queue.again()
	}
	return true
}
