package zkserver

import "holdfast/zkproto"

// stageEvents stages the notifications that the tree has for watchers.
func (s *Server) stageEvents() {
	events := s.owner.tree.TakeEvents()
	s.owner.work += notifyWork * len(events)
	for _, e := range events {
		c := s.owner.watchers[e.Watcher]
		if c == nil {
			continue
		}
		b := s.stage(c)
		start := len(b)
		b = zkproto.BeginFrame(b)
		// Before ZooKeeper 3.9, the zxid of a notification is -1. No client reads it.
		b = (&zkproto.ReplyHeader{Xid: zkproto.XidNotification, Zxid: -1}).Append(b)
		b = (&zkproto.WatcherEvent{Type: e.Type, State: zkproto.StateSyncConnected, Path: e.Path}).Append(b)
		c.owned.staged = zkproto.EndFrame(b, start)
		s.owner.notifications++
		c.owned.sent++
		s.weigh(c)
	}
	for _, by := range s.owner.tree.TakeOverrun() {
		if c := s.owner.watchers[by]; c != nil {
			s.refused(LimitNotifications, "remote", c.nc.RemoteAddr())
			s.detach(c)
			c.close()
		}
	}
}

// reply stages a header without a record.
func (s *Server) reply(c *conn, xid int32, zxid int64, code zkproto.Code) {
	b := s.stage(c)
	start := len(b)
	b = (&zkproto.ReplyHeader{Xid: xid, Zxid: zxid, Err: code}).Append(zkproto.BeginFrame(b))
	c.owned.staged = zkproto.EndFrame(b, start)
	s.answered(c)
}

// replyWith stages a header and, if code is CodeOK, a record.
func (s *Server) replyWith(c *conn, xid int32, code zkproto.Code, record interface{ Append([]byte) []byte }) {
	if code != zkproto.CodeOK {
		s.reply(c, xid, s.owner.zxid, code)
		return
	}
	b := s.stage(c)
	start := len(b)
	b = (&zkproto.ReplyHeader{Xid: xid, Zxid: s.owner.zxid}).Append(zkproto.BeginFrame(b))
	c.owned.staged = zkproto.EndFrame(record.Append(b), start)
	if n := len(c.owned.staged) - start; n > zkproto.MaxFrame {
		s.refused(LimitLargeAnswers, "remote", c.nc.RemoteAddr(), "bytes", n)
	}
	s.answered(c)
}

// answered counts a request as done. Its slot is free when the batch has been sent.
func (s *Server) answered(c *conn) {
	c.owned.answers++
	c.owned.sent++
	if at := s.owner.arrived; at != 0 {
		s.owner.batch.arrivals = append(s.owner.batch.arrivals, arrival{c, at})
	}
	s.weigh(c)
}
