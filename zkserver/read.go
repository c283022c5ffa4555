package zkserver

import (
	"holdfast/zkproto"
	"holdfast/zkserver/internal/login"
)

// read answers requests that can set a watch.
func (s *Server) read(c *conn, r *request) {
	t, path, as := s.owner.tree, r.read.Path, c.owned.identities
	var code zkproto.Code
	switch r.op {
	case zkproto.OpExists:
		var stat zkproto.Stat
		stat, code = t.Exists(path, as...)
		if r.read.Watch && code == zkproto.CodeNoNode {
			t.WatchData(c.id, path)
		}
		s.replyWith(c, r.xid, code, &zkproto.StatResponse{Stat: stat})
	case zkproto.OpGetData:
		var data []byte
		var stat zkproto.Stat
		data, stat, code = t.Get(path, as...)
		s.stageLarge(c, len(data))
		s.replyWith(c, r.xid, code, &zkproto.GetDataResponse{Data: data, Stat: stat})
	case zkproto.OpGetChildren:
		var names []string
		names, _, code = t.Children(path, as...)
		s.stageLarge(c, wireSize(names))
		s.replyWith(c, r.xid, code, &zkproto.ChildrenResponse{Children: names})
	case zkproto.OpGetChildren2:
		var names []string
		var stat zkproto.Stat
		names, stat, code = t.Children(path, as...)
		s.stageLarge(c, wireSize(names))
		s.replyWith(c, r.xid, code, &zkproto.Children2Response{Children: names, Stat: stat})
	}
	if !r.read.Watch || code != zkproto.CodeOK || c.owned.session == nil {
		return
	}
	if r.op == zkproto.OpExists || r.op == zkproto.OpGetData {
		t.WatchData(c.id, path)
	} else {
		t.WatchChildren(c.id, path)
	}
}

// ask answers requests that change nothing.
func (s *Server) ask(c *conn, r *request) {
	t, path, as := s.owner.tree, r.read.Path, c.owned.identities
	switch r.op {
	case zkproto.OpGetACL:
		acl, stat, code := t.ACL(path, as...)
		if code == zkproto.CodeOK {
			s.stageLarge(c, t.ACLSize(path))
		}
		s.replyWith(c, r.xid, code, &zkproto.GetACLResponse{ACL: acl, Stat: stat})
	case zkproto.OpGetEphemerals:
		if t.EphemeralsSize(c.owned.session.id) > maxAnswer {
			s.reply(c, r.xid, s.owner.zxid, zkproto.CodeMarshallingError)
			return
		}
		paths := t.EphemeralsBelow(c.owned.session.id, path)
		s.stageLarge(c, wireSize(paths))
		s.replyWith(c, r.xid, zkproto.CodeOK, &zkproto.GetEphemeralsResponse{Paths: paths})
	case zkproto.OpGetAllChildrenNumber:
		total, code := t.Descendants(path, as...)
		s.replyWith(c, r.xid, code, &zkproto.GetAllChildrenNumberResponse{Total: int32(total)})
	case zkproto.OpMultiRead:
		results, code := s.multiRead(c, r.multiRead.Ops)
		s.replyWith(c, r.xid, code, &zkproto.MultiReadResponse{Results: results})
	case zkproto.OpWhoAmI:
		s.replyWith(c, r.xid, zkproto.CodeOK, login.WhoAmI(as))
	}
}

// multiRead answers each operation by itself. It sets no watches, although the records ask for
// them: Apache's server does not set them either. multiRead refuses an answer that is too long for
// a client's buffer before it builds it: a request may name the same large node many times.
func (s *Server) multiRead(c *conn, ops []zkproto.MultiReadOp) ([]zkproto.MultiReadResult, zkproto.Code) {
	t, as := s.owner.tree, c.owned.identities
	results := make([]zkproto.MultiReadResult, len(ops))
	size, steps, most := 0, t.Steps(), s.multiWork()
	for i, o := range ops {
		if o.Op == zkproto.OpGetData {
			size += t.DataSize(o.Path)
		} else {
			size += t.NamesSize(o.Path)
		}
		if size > maxAnswer || t.Steps()-steps > most {
			return nil, zkproto.CodeMarshallingError
		}
		r := &results[i]
		r.Op = o.Op
		if o.Op == zkproto.OpGetData {
			r.Data, r.Stat, r.Err = t.Get(o.Path, as...)
		} else {
			r.Children, _, r.Err = t.Children(o.Path, as...)
		}
		if r.Err != zkproto.CodeOK {
			r.Op = zkproto.OpError
		}
	}
	return results, zkproto.CodeOK
}

// wireSize returns the length of a list of names in an answer.
func wireSize(names []string) (n int) {
	for _, name := range names {
		n += 4 + len(name)
	}
	return n
}
