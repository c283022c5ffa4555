package zkserver

import "holdfast/zkproto"

// write applies a request for which isWrite is true.
func (s *Server) write(c *conn, r *request) {
	t, w := s.owner.tree, &r.write
	tx := s.nextTxn(c.owned.session.id)
	tx.As = c.owned.identities
	switch r.op {
	case zkproto.OpCreate:
		path, _, code := t.Create(tx, w)
		s.notify(c)
		s.replyWith(c, r.xid, code, &zkproto.CreateResponse{Path: path})
	case zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL:
		path, stat, code := t.Create(tx, w)
		s.notify(c)
		s.replyWith(c, r.xid, code, &zkproto.Create2Response{Path: path, Stat: stat})
	case zkproto.OpDelete:
		code := t.Delete(tx, w.Path, w.Version)
		s.notify(c)
		s.reply(c, r.xid, s.owner.zxid, code)
	case zkproto.OpSetData:
		stat, code := t.Set(tx, w.Path, w.Data, w.Version)
		s.notify(c)
		s.replyWith(c, r.xid, code, &zkproto.StatResponse{Stat: stat})
	case zkproto.OpSetACL:
		stat, code := t.SetACL(tx, w.Path, w.ACL, w.Version)
		s.replyWith(c, r.xid, code, &zkproto.StatResponse{Stat: stat})
	case zkproto.OpMulti:
		s.owner.work += multiWork * len(r.multi.Ops)
		results, code := t.Multi(tx, r.multi.Ops)
		s.notify(c)
		s.replyWith(c, r.xid, code, &zkproto.MultiResponse{Results: results})
	case zkproto.OpReconfig:
		// A single node has no members to change. By default, Apache's standalone server answers
		// so, too.
		s.reply(c, r.xid, s.owner.zxid, zkproto.CodeReconfigDisabled)
	}
}
