package zkserver

// weigh is called by the owner when it has staged something for c. What is staged waits
// for the disk first and for the client then, and is memory all that time.
func (s *Server) weigh(c *conn) {
	o := &c.owned
	s.owner.batch.bytes += len(o.staged) - o.weighed
	o.weighed = len(o.staged)
	// With what it has not read of earlier batches: of those, a piece may be small.
	if bytes := o.weighed + int(c.unread.Load()); s.tooMuch(bytes, s.owner.batch.bytes) {
		s.refused(LimitUnread, "remote", c.nc.RemoteAddr(), "bytes", bytes)
		s.detach(c) // what it has sent besides is for nothing
		c.close()
		s.owner.batch.bytes -= o.weighed
		o.staged, o.weighed = nil, 0
	}
}

// tooMuch says whether a client has more to read, in bytes, than it is allowed. Once all
// of them together have, only those are dropped that have more than their share: clients
// that read have next to nothing. extra is what is not in the count of all yet.
func (s *Server) tooMuch(bytes, extra int) bool {
	n := &s.counters
	return bytes > s.limits().UnreadBytes ||
		n.bytesWaiting.Load()+int64(extra) > int64(s.limits().UnreadBytesTotal) &&
			int64(bytes) > int64(s.limits().UnreadBytesTotal)/max(n.connections.Load(), 1)
}
