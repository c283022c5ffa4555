package zkserver

import "holdfast/zkproto"

// operate applies one request and stages its answer. It first stages the notifications of the
// change: a client must learn of a change before it can see it.
func (s *Server) operate(c *conn, r *request) {
	sess := c.owned.session
	if sess == nil {
		// The session is over, or has moved to a newer connection. An answer would come from a session
		// that has ended.
		s.stage(c)
		s.answered(c)
		return
	}
	switch {
	case r.op == zkproto.OpAuth:
		s.authenticate(c, r)
		return
	case r.op == zkproto.OpSASL:
		s.sasl(c, r)
		return
	case s.mayNot(c, r):
		s.refuse(c, r, zkproto.CodeSessionClosedRequireSASL)
		return
	}
	sess.touched = s.owner.now
	if r.bad {
		if isWrite(r.op) && r.op != zkproto.OpReconfig { // as Apache's server does
			s.nextTxn(sess.id)
		}
		s.reply(c, r.xid, s.owner.zxid, zkproto.CodeMarshallingError)
		return
	}
	if s.overLimit(c, r) {
		return
	}
	if looks(r.op) && c.gone.Load() {
		// Nobody will see the answer. A client that asks, reads nothing and reconnects may leave
		// hundreds of large ones behind.
		s.stage(c)
		s.answered(c)
		return
	}
	if isWrite(r.op) {
		s.write(c, r)
		return
	}
	switch r.op {
	case zkproto.OpPing:
		// Like Apache's server, answer with this xid whatever the request's.
		s.reply(c, zkproto.XidPing, s.owner.zxid, zkproto.CodeOK)
	case zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren, zkproto.OpGetChildren2:
		s.read(c, r)
	case zkproto.OpGetACL, zkproto.OpGetEphemerals, zkproto.OpGetAllChildrenNumber, zkproto.OpMultiRead, zkproto.OpWhoAmI:
		s.ask(c, r)
	case zkproto.OpSync:
		// A single node never lags. The batch waits for all earlier writes.
		s.replyWith(c, r.xid, zkproto.CodeOK, &r.sync)
	case zkproto.OpSetWatches, zkproto.OpSetWatches2:
		s.owner.tree.SetWatches(c.id, &r.setWatches)
		s.notify(c)
		if r.more {
			s.stage(c)
			s.answered(c)
		} else {
			s.reply(c, r.xid, s.owner.zxid, zkproto.CodeOK)
		}
	case zkproto.OpAddWatch:
		code := s.owner.tree.AddWatch(c.id, r.addWatch.Path, r.addWatch.Mode)
		s.replyWith(c, r.xid, code, &zkproto.ErrorResponse{})
	case zkproto.OpCheckWatches:
		code := s.owner.tree.CheckWatches(c.id, r.removeWatches.Path, r.removeWatches.Kind)
		s.reply(c, r.xid, s.owner.zxid, code)
	case zkproto.OpRemoveWatches:
		code := s.owner.tree.RemoveWatches(c.id, r.removeWatches.Path, r.removeWatches.Kind)
		s.reply(c, r.xid, s.owner.zxid, code)
	case zkproto.OpCloseSession:
		s.closeSession(c, r.xid)
	default:
		s.reply(c, r.xid, -1, zkproto.CodeUnimplemented)
		s.finish(c)
	}
}

// overLimit answers a request that exceeds a limit. It reports whether the request did.
func (s *Server) overLimit(c *conn, r *request) bool {
	limit, code := s.checkLimits(c, r)
	if code == zkproto.CodeOK {
		return false
	}
	s.refused(limit, "remote", c.nc.RemoteAddr(), "session", hexID(c.owned.session.id), "op", r.op)
	c.penalties.Add(1)
	s.reply(c, r.xid, s.owner.zxid, code)
	if r.op == zkproto.OpSetWatches || r.op == zkproto.OpSetWatches2 {
		// Clients ignore this answer: they would believe that their watches are set.
		s.finish(c)
	}
	return true
}

// closeSession ends the session of c. The connection's own watches fire before the answer.
func (s *Server) closeSession(c *conn, xid int32) {
	sess, at := c.owned.session, s.owner.arrived
	c.owned.closing = true
	sess.conn, c.owned.session = nil, nil // so that endSession does not close the connection before the answer
	s.cfg.Logger.Debug("zkserver: session closed", "session", hexID(sess.id))
	s.endSession(sess, func() {
		s.notify(c) // portions may have been left
		s.owner.arrived, c.owned.closing = at, false
		s.reply(c, xid, s.owner.zxid, zkproto.CodeOK)
		s.finish(c)
	})
}
