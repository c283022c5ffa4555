package zkserver

// pauseBytes is how much may wait for a client before its requests wait, too. Only notifications
// can add to it then.
const pauseBytes = 256 << 10

// stalled reports whether the client of r has too much to read to get more. If so, the writer
// calls resume as soon as it has less.
func (r *request) stalled() bool {
	c := r.conn
	stalled := func() bool {
		return len(c.owned.staged)+int(c.unread.Load()) > pauseBytes && !c.gone.Load()
	}
	if !stalled() {
		return false
	}
	c.paused.Store(true)
	if stalled() {
		return true
	}
	return !c.paused.Swap(false) // else resume has been called
}

// taken is called by the writer when the network has taken n bytes.
func (c *conn) taken(n int) {
	if c.unread.Add(-int64(n)) <= pauseBytes {
		c.resume()
	}
}

// resume has the owner look at the requests of c again, if they wait for its client.
func (c *conn) resume() {
	if c.paused.Swap(false) {
		r := requestPool.Get().(*request)
		r.kind, r.conn, r.frame = kindResume, c, r.frame[:0]
		c.server.queue.push(r)
	}
}

// weigh counts what was staged for c since the last call, and drops the client if it has too much
// to read. Staged answers wait for the disk and then for the client, and take memory until then.
// The owner calls it.
func (s *Server) weigh(c *conn) {
	o := &c.owned
	grown := len(o.staged) - o.weighed
	s.owner.work += grown
	s.owner.batch.bytes += grown
	o.weighed = len(o.staged)
	// Answers of earlier batches count, too: each batch may be small.
	if bytes := o.weighed + int(c.unread.Load()); s.tooMuch(bytes, s.owner.batch.bytes) {
		s.refused(LimitUnread, "remote", c.nc.RemoteAddr(), "bytes", bytes)
		s.detach(c) // what it has sent besides is for nothing
		c.close()
		s.owner.batch.bytes -= o.weighed
		o.staged, o.weighed = nil, 0
	}
}

// tooMuch reports whether a client has more bytes to read than it is allowed. If all clients together
// have too many, a client with more than its share has too much: clients that read have next to
// nothing. The count of all does not have the extra bytes yet.
func (s *Server) tooMuch(bytes, extra int) bool {
	n := &s.counters
	return bytes > s.limits().UnreadBytes ||
		n.bytesWaiting.Load()+int64(extra) > int64(s.limits().UnreadBytesTotal) &&
			int64(bytes) > int64(s.limits().UnreadBytesTotal)/max(n.connections.Load(), 1)
}
