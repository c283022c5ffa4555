package zkserver

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"holdfast/internal/proc"
	"holdfast/zkproto"
	"holdfast/zkserver/internal/sched"
	"holdfast/zkserver/internal/store"
	"holdfast/zkserver/internal/tree"
)

// A session is one client's session, over as many connections as it takes.
type session struct {
	id      int64
	timeout time.Duration
	touched time.Time // when the server last heard from the client
	conn    *conn     // nil while the session has no connection
	local   bool      // its client is on this machine, see Config.OneMachine
	ending  bool      // some of its nodes are removed, see endSession

	group *proc.Group // the processes that it belongs to, see bound.go; nil if its timeout alone ends it
	watch *deathWatch // nil unless the server waits for the end of group
}

// load fills the owner's state from the store. init.Ceiling is the zxid of the time.
func (s *Server) load(init store.Meta, now time.Time) error {
	o := &s.owner
	*o = owner{
		tree: tree.New(), sessions: make(map[int64]*session), watchers: make(map[tree.Watcher]*conn),
		batch: new(batch), turns: sched.New((*request).stalled), restOver: time.NewTimer(0), now: now, lastCheck: now, lastReap: now, lastForgot: now,
	}
	o.tree.Bound(s.bounds())
	ending := make(map[int64]*session)
	meta, err := s.store.Load(init, store.Visitor{
		Node: loadNode(o.tree),
		Session: func(id int64, record []byte) error {
			sess, err := decodeSession(id, record)
			if err != nil {
				return err
			}
			if !sess.local {
				o.others++
			}
			if sess.ending {
				s.cfg.Logger.Info("zkserver: session ended: its end had begun before the restart", "session", hexID(id))
				ending[id] = sess
				return nil
			}
			sess.touched = now
			o.sessions[id] = sess
			return nil
		},
	})
	if err != nil {
		return err
	}
	if err := o.tree.Loaded(); err != nil {
		return err
	}
	s.secret, o.zxid, o.ceiling, o.ahead = meta.Secret, meta.Ceiling, meta.Ceiling, meta.Ahead
	copied := !meta.Copied.IsZero()
	if copied && (init.Ceiling == 0 || now.Before(meta.Copied)) {
		return fmt.Errorf("the clock says %s, but this copy of a store was made at %s; set the clock, because fencing tokens depend on it",
			now.UTC().Format(time.RFC3339), meta.Copied.UTC().Format(time.RFC3339))
	}
	if init.Ceiling > 0 && o.zxid > init.Ceiling+o.ahead {
		o.ahead = o.zxid - init.Ceiling
		o.batch.changes.PutAhead(o.ahead)
	}
	if z := init.Ceiling + o.ahead; z > o.zxid {
		o.zxid = z
		s.reserveZxids()
	}
	for id, sess := range o.sessions {
		why := "the machine has restarted" // and its process has ended
		switch {
		case copied:
			why = "the store is a copy"
		case !meta.Restarted || !sess.local:
			continue
		}
		s.cfg.Logger.Info("zkserver: session ended: "+why, "session", hexID(id))
		ending[id] = sess
		delete(o.sessions, id)
	}
	for _, id := range o.tree.Owners() {
		if o.sessions[id] == nil && ending[id] == nil {
			// This cannot happen, since one batch removes a session and its last nodes. If it does,
			// no lock may depend on these nodes.
			s.cfg.Logger.Error("zkserver: removed ephemeral nodes that have no session", "session", hexID(id))
			ending[id] = &session{id: id}
			o.others++
		}
	}
	if err := s.endLoaded(slices.Collect(maps.Values(ending))); err != nil {
		return err
	}
	for _, sess := range ending {
		if !sess.local {
			o.others--
		}
	}
	if copied {
		s.cfg.Logger.Info("zkserver: the store is a copy: its sessions have ended, and fencing tokens go on above those of the store that it was copied from",
			"copied", meta.Copied.UTC().Format(time.RFC3339), "zxid", o.zxid)
		if err := s.commitLoaded(); err != nil {
			return err
		}
		return s.store.Restored()
	}
	return nil
}

// loadNode returns a function for a store.Visitor that loads records into t.
func loadNode(t *tree.Tree) func(path string, part byte, record []byte) error {
	return func(path string, part byte, record []byte) error { return t.LoadNode(path, tree.Part(part), record) }
}

// decodeSession decodes a record that encode made.
func decodeSession(id int64, record []byte) (*session, error) {
	r := zkproto.NewReader(record)
	sess := &session{id: id, timeout: time.Duration(r.Int32()) * time.Millisecond}
	sess.local = len(record) > 4 && r.Bool()
	sess.ending = len(record) > 5 && r.Bool()
	var err error
	if len(record) > 6 {
		var g proc.Group
		if g, err = proc.Decode(r.Bytes()); err == nil && !sess.ending {
			sess.group = &g
		}
	}
	if err == nil {
		err = r.Complete()
	}
	if err != nil {
		return nil, fmt.Errorf("record of session 0x%x: %w", id, err)
	}
	return sess, nil
}

// encode returns the store's record of a session. That of a session that is ending has no processes: endLoaded writes a
// million of them at once.
func (sess *session) encode() []byte {
	record := zkproto.AppendInt32(nil, int32(sess.timeout/time.Millisecond))
	if sess.local || sess.ending || sess.group != nil {
		record = zkproto.AppendBool(record, sess.local)
	}
	if sess.ending || sess.group != nil {
		record = zkproto.AppendBool(record, sess.ending)
	}
	if sess.group != nil && !sess.ending {
		record = zkproto.AppendBytes(record, sess.group.Append(nil))
	}
	return record
}

func (s *Server) saveSession(sess *session) {
	s.owner.batch.changes.PutSession(sess.id, sess.encode())
}

// password returns the password of a session. A client proves with it, also after a restart, that
// the session is its own.
func (s *Server) password(id int64) []byte {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(id)))
	return mac.Sum(nil)[:16]
}

// newSession makes a session with an id that nobody can guess. Ids are positive, and
// the high byte is never 0xff, which Apache's server uses for containers. Its timeout begins now.
func (s *Server) newSession(timeout time.Duration, group *proc.Group) *session {
	var b [8]byte
	for {
		rand.Read(b[:])
		id := int64(binary.BigEndian.Uint64(b[:]) >> 1)
		if id == 0 || s.owner.sessions[id] != nil {
			continue
		}
		s.nextTxn(id)
		sess := &session{id: id, timeout: timeout, touched: s.owner.now, local: s.oneMachine.Load(), group: group}
		if !sess.local {
			s.owner.others++
		}
		s.owner.sessions[id] = sess
		s.saveSession(sess)
		s.counters.created.Add(1)
		s.cfg.Logger.Debug("zkserver: session created", "session", hexID(id), "timeout", timeout)
		return sess
	}
}

// connect answers the first frame of a connection.
func (s *Server) connect(c *conn, m *zkproto.ConnectRequest, group *proc.Group) {
	o := &s.owner
	if m.LastZxidSeen > o.zxid {
		// The client has seen a later state than ours. The protocol has no answer for
		// that: the connection is closed, and the client tries another server.
		s.cfg.Logger.Warn("zkserver: client has seen a higher zxid than this server; was its store replaced?",
			"remote", c.nc.RemoteAddr(), "seen", m.LastZxidSeen, "ours", o.zxid)
		s.finishAnswered(c)
		return
	}
	timeout := time.Duration(m.Timeout) * time.Millisecond
	timeout = min(max(timeout, s.cfg.MinSessionTimeout), s.cfg.MaxSessionTimeout)
	var sess *session
	if m.SessionID == 0 {
		sess = s.newSession(timeout, group)
	} else if sess = s.resume(m, timeout, group); sess == nil {
		s.cfg.Logger.Info("zkserver: session not resumed: it has ended, or the password is wrong",
			"session", hexID(m.SessionID), "remote", c.nc.RemoteAddr())
		s.answerConnect(c, &zkproto.ConnectResponse{Passwd: make([]byte, 16), HasReadOnly: m.HasReadOnly})
		s.finish(c)
		return
	}
	sess.conn = c
	c.owned.session, c.owned.attached = sess, o.now
	s.setAdmitted(c, s.users.Admits(c.owned.identities))
	o.watchers[c.id] = c
	o.tree.Identify(c.id, c.owned.identities)
	s.answerConnect(c, &zkproto.ConnectResponse{
		Timeout: int32(sess.timeout / time.Millisecond), SessionID: sess.id, Passwd: s.password(sess.id),
		HasReadOnly: m.HasReadOnly, Bound: sess.group != nil,
	})
}

// resume returns the session that m names, or nil. It checks the password first: a client that
// only guesses an id must not cut off the session's own client. From then on the session belongs to group, which may be
// that of another process, or nil.
func (s *Server) resume(m *zkproto.ConnectRequest, timeout time.Duration, group *proc.Group) *session {
	if subtle.ConstantTimeCompare(m.Passwd, s.password(m.SessionID)) != 1 {
		return nil
	}
	sess := s.owner.sessions[m.SessionID]
	if sess == nil {
		return nil
	}
	if older := sess.conn; older != nil {
		s.detach(older)
		older.close()
	}
	sess.unwatch()
	sess.touched = s.owner.now
	if sess.timeout != timeout || !sameGroup(sess.group, group) {
		sess.timeout, sess.group = timeout, group
		s.saveSession(sess)
	}
	return sess
}

func sameGroup(a, b *proc.Group) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// rebind makes the session of a connected client belong to other processes.
func (s *Server) rebind(sess *session, g *proc.Group) {
	sess.touched = s.owner.now
	if !sameGroup(sess.group, g) {
		sess.group = g
		s.saveSession(sess)
	}
}

// unwatch stops waiting for the end of the session's processes.
func (sess *session) unwatch() {
	if sess.watch != nil {
		sess.watch.stop()
		sess.watch = nil
	}
}

func (s *Server) answerConnect(c *conn, m *zkproto.ConnectResponse) {
	b := s.stage(c)
	start := len(b)
	c.owned.staged = zkproto.EndFrame(m.Append(zkproto.BeginFrame(b)), start)
	s.answered(c)
}

// detach separates a connection from its session. The connection's watches end. If the session belongs to processes, the
// server begins to wait for their end.
func (s *Server) detach(c *conn) {
	s.owner.tree.DropWatcher(c.id)
	delete(s.owner.watchers, c.id)
	if sess := c.owned.session; sess != nil {
		sess.conn, c.owned.session = nil, nil
		s.watchGroup(sess)
	}
}

// finish closes a connection after its staged bytes.
func (s *Server) finish(c *conn) {
	s.detach(c)
	s.stage(c)
	c.owned.finish = true
}

// finishAnswered is finish for a request that gets no answer.
func (s *Server) finishAnswered(c *conn) {
	s.answered(c)
	s.finish(c)
}
