package zkserver

import (
	"bufio"
	"time"
)

// Who waits for one answer at a time waits for every hand-over on the way there and back,
// and each wakes a thread that takes a core from somebody. So a request that comes while
// nothing else is under way is served by the reader of its connection from the beginning
// to the end. It does what the owner and the committer would do, by the same rules: Server.turn
// is the right to touch the owner's state, and the token of Server.idle that to commit and
// to release.

// serveAlone serves r, which is read and has its slot, and reports whether it has.
func (c *conn) serveAlone(r *request, in *bufio.Reader) bool {
	s := c.server
	if c.raw == nil || in.Buffered() > 0 || len(c.slots) > 1 || len(r.frame) > largeRequest ||
		s.counters.outstanding.Load() > 1 || c.unread.Load() > 0 || !s.turn.TryLock() {
		return false
	}
	b := s.applyAlone(c, r)
	s.turn.Unlock()
	if b == nil {
		return false
	}
	if !b.changes.Empty() && !s.commitBatch(b) {
		return true
	}
	mine := c.claim()
	s.release(b)
	s.idle <- struct{}{}
	if mine {
		c.writeAtOnce()
	}
	return true
}

// applyAlone is a round of the owner, with turn and the right to commit in hand. It returns nil
// if something else is to be done first.
func (s *Server) applyAlone(c *conn, r *request) *batch {
	select {
	case <-s.idle:
	default:
		return nil
	}
	o := &s.owner
	if len(o.waiting) > 0 || !o.batch.empty() || o.tree.Changed() || !s.queue.empty() {
		s.idle <- struct{}{}
		return nil
	}
	o.now = time.Now()
	o.round++
	s.applyInTurn(r) // with its whole share ahead of it
	s.publish()
	return s.seal()
}

// claim takes the writer's place until writeAtOnce, unless it has something in hand.
func (c *conn) claim() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.writing || len(c.out) > 0 {
		return false
	}
	c.writing = true
	return true
}

// writeAtOnce writes as much as the network takes without waiting. The rest, and the end
// of the connection, are the writer's.
func (c *conn) writeAtOnce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) > 0 && !c.closed {
		c.nc.SetWriteDeadline(time.Time{}) // the last one may have passed
		n := writeNow(c.raw, c.out)
		s := c.server
		s.counters.bytesSent.Add(int64(n))
		s.counters.bytesWaiting.Add(-int64(n))
		c.taken(n)
		if n == len(c.out) {
			c.release(c.answers)
			c.answers = 0
		}
		c.out = append(c.out[:0], c.out[n:]...)
	}
	c.writing = false
	if len(c.out) > 0 || c.finishing {
		c.signal()
	}
}
