package zkserver

// pauseBytes is how much unread data may wait for a client before its requests wait, too. After
// that, only notifications can add to it.
const pauseBytes = 256 << 10

// stalled reports whether the client of r has too much unread data to get more. If so, the writer
// calls resume as soon as there is less.
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
	return !c.paused.Swap(false) // otherwise resume has been called
}

// taken is called by the writer when the network has taken n bytes.
func (c *conn) taken(n int) {
	if c.unread.Add(-int64(n)) <= pauseBytes {
		c.resume()
	}
}

// resume makes the owner try the requests of c again, if they wait for its client to read.
func (c *conn) resume() {
	if c.paused.Swap(false) {
		r := requestPool.Get().(*request)
		r.kind, r.conn, r.frame = kindResume, c, r.frame[:0]
		c.server.queue.push(r)
	}
}

// weigh counts the bytes that were staged for c since the last call, and drops the client if too
// much waits for it. Staged answers wait for the disk and then for the client, and take memory
// until then. The owner calls it.
func (s *Server) weigh(c *conn) {
	o := &c.owned
	grown := len(o.staged) - o.weighed
	s.owner.work += grown
	s.owner.batch.bytes += grown
	o.weighed = len(o.staged)
	// Count answers of earlier batches, too: each batch may be small.
	if bytes := o.weighed + int(c.unread.Load()); s.tooMuch(bytes, s.owner.batch.bytes) {
		s.refused(LimitUnread, "remote", c.nc.RemoteAddr(), "bytes", bytes)
		s.detach(c) // its further requests are dropped
		c.close()
		s.owner.batch.bytes -= o.weighed
		o.staged, o.weighed = nil, 0
	}
}

// tooMuch reports whether more bytes wait for a client than it is allowed. If too much waits for all
// clients together, a client with more than its share has too much: clients that read have next to
// nothing waiting. The total does not include the extra bytes yet.
func (s *Server) tooMuch(bytes, extra int) bool {
	n, l := &s.counters, s.limits()
	total := int64(l.BufferBytes / 4)
	return bytes > l.UnreadBytes ||
		n.bytesWaiting.Load()+int64(extra) > total && int64(bytes) > total/max(n.connections.Load(), 1)
}
