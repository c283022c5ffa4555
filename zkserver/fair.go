package zkserver

import "time"

// One client may have hundreds of requests under way, and each may be a megabyte or be
// answered by one. So that nobody waits for all of them, the owner works in rounds: what
// a connection has sent beyond a share waits for the next round, in which everybody else's
// new requests have their turn too.

// roundBytes is the share of a connection, in bytes of requests and answers. The request
// that exceeds it is the last.
const roundBytes = 128 << 10

// applyQueued works off one round.
func (s *Server) applyQueued() {
	o := &s.owner
	items := s.queue.take(o.spare)
	o.now = time.Now()
	o.round++
	o.waitingForTurn, o.waitingForBatch = false, false
	todo := o.waiting
	o.waiting = o.waitingSpare[:0]
	for i, r := range todo {
		s.applyInTurn(r)
		todo[i] = nil
	}
	for i, r := range items {
		s.applyInTurn(r)
		items[i] = nil
	}
	o.waitingSpare, o.spare = todo, items
	if o.waitingForBatch && o.batch.empty() && !o.tree.Changed() {
		// Whoever sent the large requests has gone, and there is nothing to hand over.
		o.batch.large, o.waitingForTurn = 0, true
	}
	if o.waitingForTurn {
		s.queue.again()
	}
	s.publish()
}

// applyInTurn applies r, or lets it wait for the next round.
func (s *Server) applyInTurn(r *request) {
	o := &s.owner
	if r.kind == kindStop {
		// Everything before it has been taken and is answered.
		for _, w := range o.waiting {
			s.handle(w)
		}
		o.waiting = o.waiting[:0]
	}
	conn, size := r.conn, len(r.frame) // r is given back when it has been applied
	if conn == nil {
		s.handle(r)
		return
	}
	c := &conn.owned
	if c.round != o.round {
		c.round, c.spent, c.behind = o.round, 0, false
	}
	switch {
	case c.behind:
		// What made the one before it wait may be over, or not concern this one; but the
		// requests of a client are answered in their order.
		o.waiting = append(o.waiting, r)
		return
	case len(c.staged)+int(conn.unread.Load()) > pauseBytes && !conn.gone.Load():
		o.waiting = append(o.waiting, r) // until handOver or taken
		c.behind = true
		return
	case c.spent >= roundBytes:
		o.waiting = append(o.waiting, r)
		o.waitingForTurn = true
		return
	case size > largeRequest && o.batch.large >= largeBatch:
		o.waiting = append(o.waiting, r) // until handOver
		o.waitingForBatch = true
		c.behind = true
		return
	}
	if size > largeRequest {
		o.batch.large += size
	}
	c.spent += size
	before := len(c.staged)
	s.handle(r)
	c.spent += max(len(c.staged)-before, 0)
	conn.leaveRoom(size)
}

// pauseBytes is how much may wait for a client before its requests do. Only notifications,
// which it does not ask for, can add to it then.
const pauseBytes = 1 << 20

// taken is called by the writer when the network has taken n bytes.
func (c *conn) taken(n int) {
	if left := c.unread.Add(-int64(n)); left <= pauseBytes && left+int64(n) > pauseBytes {
		c.server.queue.again()
	}
}

// A request is large if it takes more than the buffers that are kept for others. Those
// that wait for the owner are bounded by their bytes, others by Limits.Outstanding.
const (
	largeRequest = 4096
	largeWaiting = 1 << 20
	largeBatch   = 256 << 10 // what of them goes into one commit, which everybody else's small writes wait for
)

// waitForRoom is called by the reader before it hands over a request.
func (c *conn) waitForRoom(size int) bool {
	if size <= largeRequest {
		return true
	}
	for c.large.Load() > 0 && c.large.Load()+int64(size) > largeWaiting {
		select {
		case <-c.room:
		case <-c.stop:
			return false
		case <-c.quit:
			return false
		}
	}
	c.large.Add(int64(size))
	return true
}

// leaveRoom is called by the owner when it has applied a request.
func (c *conn) leaveRoom(size int) {
	if size <= largeRequest {
		return
	}
	c.large.Add(-int64(size))
	select {
	case c.room <- struct{}{}:
	default:
	}
}
