package zkserver

import "holdfast/zkproto"

// operate applies one request and stages its answer. Notifications that it causes are
// staged first: a client is to hear of a change before it can see it.
func (s *Server) operate(c *conn, r *request) {
	sess := c.owned.session
	if sess == nil {
		// Its session is over, or has moved to a newer connection. An answer would come
		// from a life that has ended.
		s.stage(c)
		s.answered(c)
		return
	}
	if r.op == zkproto.OpAuth {
		s.reply(c, r.xid, 0, zkproto.CodeAuthFailed)
		s.finish(c)
		return
	}
	sess.touched = s.owner.now
	if r.bad {
		s.reply(c, r.xid, s.owner.zxid, zkproto.CodeMarshallingError)
		return
	}
	switch r.op {
	case zkproto.OpPing:
		s.reply(c, r.xid, s.owner.zxid, zkproto.CodeOK)
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer:
		s.create(c, r)
	case zkproto.OpDelete:
		code := s.owner.tree.Delete(s.nextTxn(sess.id), r.write.Path, r.write.Version)
		s.notify()
		s.reply(c, r.xid, s.owner.zxid, code)
	case zkproto.OpSetData:
		stat, code := s.owner.tree.Set(s.nextTxn(sess.id), r.write.Path, r.write.Data, r.write.Version)
		s.notify()
		s.replyWith(c, r.xid, code, &zkproto.StatResponse{Stat: stat})
	case zkproto.OpMulti:
		results := s.owner.tree.Multi(s.nextTxn(sess.id), r.multi.Ops)
		s.notify()
		s.replyWith(c, r.xid, zkproto.CodeOK, &zkproto.MultiResponse{Results: results})
	case zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren, zkproto.OpGetChildren2:
		s.read(c, r)
	case zkproto.OpSync:
		// One node is never behind; what was written before is waited for by the batch.
		s.replyWith(c, r.xid, zkproto.CodeOK, &r.sync)
	case zkproto.OpSetWatches:
		s.owner.tree.SetWatches(c.id, &r.setWatches)
		s.notify()
		s.reply(c, r.xid, s.owner.zxid, zkproto.CodeOK)
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

// closeSession ends the session of c, whose own watches fire before the answer.
func (s *Server) closeSession(c *conn, xid int32) {
	sess := c.owned.session
	sess.conn = nil // endSession would end the connection before the answer
	s.endSession(sess)
	s.reply(c, xid, s.owner.zxid, zkproto.CodeOK)
	s.finish(c)
}

func (s *Server) create(c *conn, r *request) {
	w := &r.write
	req := zkproto.CreateRequest{Path: w.Path, Data: w.Data, ACL: w.ACL, Flags: w.Flags}
	path, stat, code := s.owner.tree.Create(s.nextTxn(c.owned.session.id), r.op, &req)
	s.notify()
	if r.op == zkproto.OpCreate {
		s.replyWith(c, r.xid, code, &zkproto.CreateResponse{Path: path})
	} else {
		s.replyWith(c, r.xid, code, &zkproto.Create2Response{Path: path, Stat: stat})
	}
}

func (s *Server) read(c *conn, r *request) {
	t, path := s.owner.tree, r.read.Path
	var code zkproto.Code
	switch r.op {
	case zkproto.OpExists:
		var stat zkproto.Stat
		stat, code = t.Exists(path)
		if r.read.Watch && code == zkproto.CodeNoNode {
			t.WatchData(c.id, path)
		}
		s.replyWith(c, r.xid, code, &zkproto.StatResponse{Stat: stat})
	case zkproto.OpGetData:
		var data []byte
		var stat zkproto.Stat
		data, stat, code = t.Get(path)
		s.replyWith(c, r.xid, code, &zkproto.GetDataResponse{Data: data, Stat: stat})
	case zkproto.OpGetChildren:
		var names []string
		names, _, code = t.Children(path)
		s.replyWith(c, r.xid, code, &zkproto.ChildrenResponse{Children: names})
	case zkproto.OpGetChildren2:
		var names []string
		var stat zkproto.Stat
		names, stat, code = t.Children(path)
		s.replyWith(c, r.xid, code, &zkproto.Children2Response{Children: names, Stat: stat})
	}
	if !r.read.Watch || code != zkproto.CodeOK {
		return
	}
	if r.op == zkproto.OpExists || r.op == zkproto.OpGetData {
		t.WatchData(c.id, path)
	} else {
		t.WatchChildren(c.id, path)
	}
}

// notify stages the notifications that the tree has for its watchers.
func (s *Server) notify() {
	for _, e := range s.owner.tree.TakeEvents() {
		c := s.owner.watchers[e.Watcher]
		if c == nil {
			continue
		}
		b := s.stage(c)
		start := len(b)
		b = zkproto.BeginFrame(b)
		// The zxid of a notification is -1 before ZooKeeper 3.9; no client reads it.
		b = (&zkproto.ReplyHeader{Xid: zkproto.XidNotification, Zxid: -1}).Append(b)
		b = (&zkproto.WatcherEvent{Type: e.Type, State: zkproto.StateSyncConnected, Path: e.Path}).Append(b)
		c.owned.staged = zkproto.EndFrame(b, start)
		s.owner.sent++
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
	s.answered(c)
}

// stage makes c part of the batch and returns what is staged for it so far.
func (s *Server) stage(c *conn) []byte {
	if !c.owned.inBatch {
		c.owned.inBatch = true
		c.owned.staged = (*stagePool.Get().(*[]byte))[:0]
		s.owner.batch.conns = append(s.owner.batch.conns, c)
	}
	return c.owned.staged
}

// answered counts a request as done; its slot is free when the batch has been sent.
func (s *Server) answered(c *conn) {
	c.owned.answers++
	s.owner.sent++
}
