package chaos_test

import (
	"maps"
	"slices"
	"strings"

	"holdfast/zkproto"
)

// A database is what one server has applied: the tree and the sessions.
type database struct {
	*refTree
	zxid     int64
	sessions map[int64]int32 // session timeouts
}

// The nodes that every server has.
const configPath = "/zookeeper/config"

func newDatabase() *database {
	d := &database{refTree: newRefTree(), sessions: make(map[int64]int32)}
	for _, path := range []string{"/zookeeper", configPath} {
		d.do(0, 0, &zkproto.MultiOp{Op: zkproto.OpCreate, Path: path})
	}
	d.fired = nil
	return d
}

// configure stores the members of the ensemble, as a server does when it starts.
func (d *database) configure(e *ensemble) { d.nodes[configPath].data = e.config() }

// applyTo applies the log up to this length, and notifies clients.
func (s *server) applyTo(length int) {
	for s.applied < length {
		t := s.log[s.applied]
		s.applied++
		s.e.note(t)
		done := s.data.apply(t)
		fired := s.data.fired
		s.data.fired = nil
		if !s.serving {
			continue
		}
		s.watches.fire(fired)
		c := s.attached[t.session]
		s.answer(t, done)
		if t.op == zkproto.OpCloseSession {
			if s.leading != nil {
				delete(s.leading.sessions, t.session)
			}
			delete(s.touched, t.session)
			if c != nil && c.session == t.session {
				c.drop()
			}
		}
	}
}

// apply executes t. It does the same on every server.
func (d *database) apply(t *txn) []refDone {
	d.zxid, d.now = t.zxid, t.at
	switch {
	case t.err != zkproto.CodeOK:
	case t.op == opCreateSession:
		d.sessions[t.session] = t.timeout
	case t.op == zkproto.OpCloseSession:
		delete(d.sessions, t.session)
		d.end(t.zxid, t.session)
	case t.op == opDeleteContainer:
		if n := d.nodes[t.ops[0].Path]; n != nil && n.container && len(n.children) == 0 {
			d.do(t.zxid, 0, &t.ops[0])
		}
	default:
		done, _ := d.multi(t.zxid, t.session, t.ops)
		return done
	}
	return nil
}

// emptyContainers returns the containers without children that have had some.
func (d *database) emptyContainers() []string {
	var paths []string
	for path, n := range d.nodes {
		if n.container && len(n.children) == 0 && n.stat.Cversion > 0 {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// decodeWrite decodes the operations of a write.
func (p *pending) decodeWrite() ([]zkproto.MultiOp, error) {
	r := zkproto.NewReader(p.body)
	o := zkproto.MultiOp{Op: p.op}
	switch p.op {
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer:
		var m zkproto.CreateRequest
		m.Decode(r)
		o.Path, o.Data, o.ACL, o.Flags = m.Path, m.Data, m.ACL, m.Flags
	case zkproto.OpCreateTTL:
		var m zkproto.CreateTTLRequest
		m.Decode(r)
		o.Path, o.Data, o.ACL, o.Flags = m.Path, m.Data, m.ACL, m.Flags
	case zkproto.OpDelete:
		var m zkproto.DeleteRequest
		m.Decode(r)
		o.Path, o.Version = m.Path, m.Version
	case zkproto.OpSetData:
		var m zkproto.SetDataRequest
		m.Decode(r)
		o.Path, o.Data, o.Version = m.Path, m.Data, m.Version
	case zkproto.OpSetACL:
		var m zkproto.SetACLRequest
		m.Decode(r)
		o.Path, o.ACL, o.Version = m.Path, m.ACL, m.Version
	case zkproto.OpMulti:
		var m zkproto.MultiRequest
		m.Decode(r)
		return m.Ops, r.Complete()
	}
	return []zkproto.MultiOp{o}, r.Complete()
}

// committed answers a write with the results of its transaction.
func (p *pending) committed(t *txn, done []refDone) {
	switch {
	case t.err == zkproto.CodeSessionMoved: // the connection no longer belongs to the session
		if _, open := p.conn.s.clients[p.conn]; open {
			p.conn.close()
		}
		return
	case p.op == opCreateSession:
		p.conn.attach(true)
		return
	case p.op == zkproto.OpSync:
		r := zkproto.NewReader(p.body)
		p.reply(zkproto.CodeOK, &zkproto.SyncRequest{Path: r.String()})
		return
	case p.op == zkproto.OpMulti && t.op == zkproto.OpMulti:
		p.reply(zkproto.CodeOK, multiResponse(t, done))
		return
	case t.err != zkproto.CodeOK:
		p.reply(t.err, nil)
		return
	case p.op == zkproto.OpCloseSession && t.op == zkproto.OpCloseSession:
		p.reply(zkproto.CodeOK, nil)
		return
	case p.op != t.op:
		// This is not the transaction of this request, see answer. Apache's server answers in one of
		// several ways; a marshalling error is one of them.
		p.reply(zkproto.CodeMarshallingError, nil)
		return
	}
	d := done[0]
	if d.reasons != nil {
		p.reply(d.reasons[0], nil)
		return
	}
	switch p.op {
	case zkproto.OpCreate:
		p.reply(zkproto.CodeOK, &zkproto.CreateResponse{Path: d.path})
	case zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL:
		p.reply(zkproto.CodeOK, &zkproto.Create2Response{Path: d.path, Stat: d.stat})
	case zkproto.OpSetData, zkproto.OpSetACL:
		p.reply(zkproto.CodeOK, &zkproto.StatResponse{Stat: d.stat})
	default:
		p.reply(zkproto.CodeOK, nil)
	}
}

// multiResponse returns the answer to a transaction. If it failed, the results say where. A session that
// may not write fails at the first operation.
func multiResponse(t *txn, done []refDone) *zkproto.MultiResponse {
	m := &zkproto.MultiResponse{Results: make([]zkproto.MultiResult, len(t.ops))}
	failed := -1
	for i := range t.ops {
		if t.err != zkproto.CodeOK || i < len(done) && done[i].reasons != nil {
			failed = i
			break
		}
	}
	for i := range t.ops {
		r := &m.Results[i]
		switch {
		case failed < 0:
			*r = zkproto.MultiResult{Op: t.ops[i].Op, Path: done[i].path, Stat: done[i].stat}
			if r.Op == zkproto.OpCreate2 { // Apache's server returns less in a transaction
				r.Op, r.Stat = zkproto.OpCreate, zkproto.Stat{}
			}
		case i < failed:
			*r = zkproto.MultiResult{Op: zkproto.OpError}
		case i > failed:
			*r = zkproto.MultiResult{Op: zkproto.OpError, Err: zkproto.CodeRuntimeInconsistency}
		case t.err != zkproto.CodeOK:
			*r = zkproto.MultiResult{Op: zkproto.OpError, Err: t.err}
		default:
			*r = zkproto.MultiResult{Op: zkproto.OpError, Err: done[i].reasons[0]}
		}
	}
	return m
}

// read answers a request that concerns only this server.
func (p *pending) read() {
	s := p.conn.s
	if _, open := s.clients[p.conn]; !open {
		return
	}
	r := zkproto.NewReader(p.body)
	var read zkproto.ReadRequest
	switch p.op {
	case zkproto.OpPing:
		p.reply(zkproto.CodeOK, nil)
		return
	case zkproto.OpSync: // the leader's own client: Apache's leader answers at once
		p.reply(zkproto.CodeOK, &zkproto.SyncRequest{Path: r.String()})
		return
	case zkproto.OpSetWatches, zkproto.OpSetWatches2, zkproto.OpAddWatch, zkproto.OpRemoveWatches:
		p.watch(r)
		return
	case zkproto.OpMultiRead:
		p.multiRead(r)
		return
	case zkproto.OpWhoAmI:
		p.reply(zkproto.CodeOK, &zkproto.WhoAmIResponse{Infos: []zkproto.ClientInfo{{Scheme: "ip", User: "simulated"}}})
		return
	case zkproto.OpGetEphemerals:
		prefix := r.String()
		owned := slices.DeleteFunc(s.data.owned(p.session), func(path string) bool { return !strings.HasPrefix(path, prefix) })
		p.reply(zkproto.CodeOK, &zkproto.GetEphemeralsResponse{Paths: owned})
		return
	case zkproto.OpReconfig:
		p.reply(zkproto.CodeReconfigDisabled, nil)
		return
	case zkproto.OpGetACL, zkproto.OpGetAllChildrenNumber:
		read.Path = r.String()
	case zkproto.OpExists, zkproto.OpGetData, zkproto.OpGetChildren, zkproto.OpGetChildren2:
		read.Decode(r)
	default: // the model does not know it
		p.reply(zkproto.CodeUnimplemented, nil)
		p.conn.close()
		return
	}
	n := s.data.nodes[read.Path]
	if read.Watch && (n != nil || p.op == zkproto.OpExists) {
		on := watchData
		if p.op == zkproto.OpGetChildren || p.op == zkproto.OpGetChildren2 {
			on = watchChildren
		}
		s.watches.add(on, read.Path, p.conn, watchOnce)
	}
	if n == nil {
		p.reply(zkproto.CodeNoNode, nil)
		return
	}
	stat := s.data.statOf(n)
	switch p.op {
	case zkproto.OpExists:
		p.reply(zkproto.CodeOK, &zkproto.StatResponse{Stat: stat})
	case zkproto.OpGetData:
		p.reply(zkproto.CodeOK, &zkproto.GetDataResponse{Data: []byte(n.data), Stat: stat})
	case zkproto.OpGetChildren:
		p.reply(zkproto.CodeOK, &zkproto.ChildrenResponse{Children: s.data.childrenOf(n)})
	case zkproto.OpGetChildren2:
		p.reply(zkproto.CodeOK, &zkproto.Children2Response{Children: s.data.childrenOf(n), Stat: stat})
	case zkproto.OpGetACL:
		p.reply(zkproto.CodeOK, &zkproto.GetACLResponse{ACL: n.acl, Stat: stat})
	case zkproto.OpGetAllChildrenNumber:
		below := strings.TrimSuffix(read.Path, "/") + "/"
		total := int32(0)
		for path := range s.data.nodes {
			if path != "/" && strings.HasPrefix(path, below) {
				total++
			}
		}
		p.reply(zkproto.CodeOK, &zkproto.GetAllChildrenNumberResponse{Total: total})
	}
}

// childrenOf returns a node's children. Apache's servers return them in no order; the model
// sorts them, for the seed.
func (d *database) childrenOf(n *refNode) []string { return slices.Sorted(maps.Keys(n.children)) }

func (p *pending) multiRead(r *zkproto.Reader) {
	var m zkproto.MultiReadRequest
	m.Decode(r)
	d := p.conn.s.data
	resp := &zkproto.MultiReadResponse{}
	for _, o := range m.Ops {
		n := d.nodes[o.Path]
		switch {
		case n == nil:
			resp.Results = append(resp.Results, zkproto.MultiReadResult{Op: zkproto.OpError, Err: zkproto.CodeNoNode})
		case o.Op == zkproto.OpGetData:
			resp.Results = append(resp.Results, zkproto.MultiReadResult{Op: o.Op, Data: []byte(n.data), Stat: d.statOf(n)})
		default:
			resp.Results = append(resp.Results, zkproto.MultiReadResult{Op: o.Op, Children: d.childrenOf(n)})
		}
	}
	p.reply(zkproto.CodeOK, resp)
}
