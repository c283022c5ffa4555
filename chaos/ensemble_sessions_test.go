package chaos_test

import (
	"maps"
	"slices"
	"time"

	"holdfast/zkproto"
)

// The leader's sessions (SessionTrackerImpl, ExpiryQueue). The leader touches a session when it is
// created, when it attaches to a server (REVALIDATE), when a client connected to the leader sends a
// request, and when a learner answers a ping. A request that a learner forwards does not touch
// it.

// A tracked session is one that the leader knows.
type tracked struct {
	expires time.Duration
	closing bool
	// owner is the server of the session's client, as its connection to the leader; nil if nobody
	// has asked since this leader began.
	owner any
}

// track starts the clock of a session.
func (l *leading) track(id int64, timeout int32) {
	if l.sessions[id] == nil {
		l.sessions[id] = &tracked{}
	}
	l.touch(id, timeout)
}

// touch records that the session was heard. It returns false if the session does not exist, or no longer.
func (l *leading) touch(id int64, timeout int32) bool {
	t := l.sessions[id]
	if t == nil || t.closing {
		return false
	}
	t.expires = l.round(l.s.e.now() + time.Duration(timeout)*time.Millisecond)
	return true
}

// round is the next instant at which sessions expire.
func (l *leading) round(at time.Duration) time.Duration {
	tick := l.s.e.tick
	return ((at+l.phase)/tick+1)*tick - l.phase
}

// expireNext expires sessions, at every tick.
func (l *leading) expireNext() {
	s := l.s
	if s.leading != l {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(l.sessions)) {
		if t := l.sessions[id]; !t.closing && t.expires <= s.e.now() {
			s.e.expired++
			s.expire(id)
		}
	}
	s.in(l.round(s.e.now())-s.e.now(), l.expireNext)
}

// expire ends a session.
func (s *server) expire(id int64) bool {
	l := s.leading
	t := l.sessions[id]
	if t == nil || t.closing {
		return false
	}
	s.e.tell("server %d expires session %#x", s.id, uint64(id))
	t.closing = true
	l.propose(&txn{session: id, op: zkproto.OpCloseSession})
	return true
}

// submit orders a client's write. owner is the learner's connection that it came over, or the leader
// (PrepRequestProcessor). p gets the answer, and later requests of its session wait for that.
func (l *leading) submit(t *txn, owner any, p *pending) {
	l.asked[t] = p
	l.s.pending[t.session] = append(l.s.pending[t.session], p)

	switch t.op {
	case opCreateSession:
		l.track(t.session, t.timeout)
		l.sessions[t.session].owner = owner
	case zkproto.OpCloseSession:
		if k := l.sessions[t.session]; k != nil {
			k.closing = true
		}
	default:
		t.err = l.check(t.session, owner)
	}
	l.propose(t)
}

// check returns an error if a session may not write over this connection.
func (l *leading) check(session int64, owner any) zkproto.Code {
	switch t := l.sessions[session]; {
	case t == nil, t.closing:
		return zkproto.CodeSessionExpired
	case t.owner == nil:
		t.owner = owner
	case t.owner != owner:
		l.s.e.moved++
		return zkproto.CodeSessionMoved
	}
	return zkproto.CodeOK
}

// attach is REVALIDATE: a client has moved to another connection, which owns the session from now on.
func (l *leading) attach(session int64, timeout int32, owner any) bool {
	if !l.touch(session, timeout) {
		return false
	}
	l.sessions[session].owner = owner
	return true
}

// reap removes containers that have become empty (ContainerManager).
func (l *leading) reap() {
	s := l.s
	if s.leading != l {
		return
	}
	for _, path := range s.data.emptyContainers() {
		l.propose(&txn{op: opDeleteContainer, ops: []zkproto.MultiOp{{Op: zkproto.OpDelete, Path: path, Version: -1}}})
	}
	s.in(s.e.reapEvery, l.reap)
}
