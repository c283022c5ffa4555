package zk

// Left counts the work of the current session: requests queued and sent, watches armed and
// about to be.
func (c *Client) Left() (requests, watches int) {
	s := c.session.Load()
	if s == nil {
		return 0, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	requests = len(s.queue)
	if s.conn != nil {
		requests += s.conn.pending.len()
	}
	for k := range s.watches.armed {
		for _, ws := range s.watches.armed[k] {
			watches += len(ws)
		}
	}
	for _, n := range s.watches.arming {
		watches += n
	}
	for _, set := range s.watches.persistent {
		watches += len(set.armed) + set.arming
	}
	return requests, watches
}
