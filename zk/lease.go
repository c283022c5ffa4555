package zk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/zkproto"
)

// A LeaseMode says what counts as proof that a session lives, while a lease depends on it. See
// [Session.Lease].
type LeaseMode int

const (
	// LeaseAuto is LeasePing against a single server and LeaseQuorum against an ensemble. The
	// client reads /zookeeper/config on every connection to find out which it is. If the node
	// is unreadable, the client assumes an ensemble.
	LeaseAuto LeaseMode = iota
	// LeasePing trusts every answer. That is right for a single server. Behind a follower that
	// has lost its leader, a holder goes on for seconds after the ensemble has given its lock
	// away.
	LeasePing
	// LeaseQuorum trusts only requests that have certainly reached the leader: the creation of
	// the session, an attach followed by a write, and three writes in a row. If the client
	// sends no writes of its own, it sends probes.
	LeaseQuorum
)

// DefaultTickTime is the tickTime of an ensemble if Config does not set it. It is what Apache's servers use
// if zoo.cfg does not set it either (ZooKeeperServer.DEFAULT_TICK_TIME). Their sample configuration has 2 s.
// To assume more than the ensemble has is safe. To assume less is not: a holder could be told too late.
const DefaultTickTime = 3 * time.Second

// ErrTimeoutTooShort: with this session timeout and tick time, a proof would always come too
// late. The error names the shortest timeout that works.
var ErrTimeoutTooShort = errors.New("session timeout too short")

// A Lease is a claim on one ephemeral node of a session. While a session has a lease, its
// Deadline is a proof. A Lease is safe for concurrent use.
type Lease struct {
	session *Session
	node    string // with the chroot

	// guarded by session.mu:
	gone       chan struct{} // nil until Gone is called
	reattached bool          // the session was attached again for this lease
	isGone     bool
	index      int // in session.leases; -1 before it is granted, and once it is released
}

// Gone is closed when a probe has found that the node no longer exists.
func (l *Lease) Gone() <-chan struct{} {
	l.session.mu.Lock()
	defer l.session.mu.Unlock()
	if l.gone == nil {
		l.gone = make(chan struct{})
		if l.isGone {
			close(l.gone)
		}
	}
	return l.gone
}

// Release ends the lease. Releasing it twice does nothing.
func (l *Lease) Release() {
	s := l.session
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.index < 0 {
		return
	}
	last := len(s.leases) - 1
	s.leases[l.index] = s.leases[last]
	s.leases[l.index].index = l.index
	s.leases[last] = nil
	s.leases = s.leases[:last]
	l.index = -1
	if last == 0 && s.mode() != modeAlone { // a server alone needs no probes
		s.warm = now().Add(s.timeout)
	}
}

// Lease makes sure that the session is proven to live, and keeps it proven until Release, for
// the ephemeral node at path. Deadline then advances only on a proof that reaches the leader.
// When the proof runs out, the session is over.
//
// Against an ensemble the proof costs one transaction that changes nothing per sixteenth of the
// session timeout (or per five eighths of a tick, if that is longer). All leases of a session
// share it. Probing goes on for one session timeout after the last Release, so that a session
// which leases often stays proven. After that, an idle session costs nothing.
//
// Lease returns at once if the server is alone, if there is another Lease, or if the proof is
// young enough: half of the session timeout will still be left when the probes extend it. If
// the session has just attached, Lease waits for the answer to a write. Otherwise it re-attaches
// the session first, which takes three round trips with the write (more with TLS and Auth).
// Outstanding requests are answered first, and new ones wait for the new connection; the
// re-attach fails none of them. The client registers its watches again, as after every
// reconnect, and a PersistentWatch gets ErrEventsMissed.
//
// Errors: ErrTimeoutTooShort; ErrNoNode if Lease had to send a write and the node does not exist;
// ErrThrottled if the server did not execute that write; ErrSessionExpired, ErrClosed or
// ErrAuthFailed if the session is over; the cause of ctx.
func (s *Session) Lease(ctx context.Context, path string) (*Lease, error) {
	fail := func(err error) error { return &Error{Op: "lease", Path: path, Err: err} }
	l := &Lease{session: s, node: s.node(path), index: -1}
	for ctx.Err() == nil {
		granted, unknown, err := s.grant(l)
		switch {
		case err != nil:
			return nil, fail(err)
		case granted:
			return l, nil
		case unknown != nil:
			select {
			case <-unknown:
			case <-s.ctx.Done():
			case <-ctx.Done():
			}
			continue
		}
		_, err = s.Multi(ctx, CheckOp(path, AnyVersion))
		switch {
		case err == nil, errors.Is(err, ErrConnectionLoss):
		case errors.Is(err, ErrNoAuth): // it was a transaction, too
		default:
			return nil, err
		}
	}
	return nil, fail(ended(ctx))
}

// grant makes l one of the session's leases if the session is proven. If the server's mode is
// not known yet, grant returns a channel that is closed when it is. If it returns neither, the
// caller sends a write and calls grant again. If the session has to re-attach first, grant has
// started that.
func (s *Session) grant(l *Lease) (granted bool, unknown <-chan struct{}, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mode := s.mode()
	switch {
	case s.ctx.Err() != nil: // at the end of a session, its context ends first
		return false, nil, context.Cause(s.ctx)
	case mode == modeUnknown:
		return false, s.modeKnown, nil
	case mode == modeAlone: // every answer is a proof
		s.hold(l)
		return true, nil, nil
	}
	t := now()
	switch {
	case s.timeout < smallestTimeout(s.proof.tick):
		return false, nil, fmt.Errorf("%w: %v, with a tickTime of %v at least %v are needed; if the ensemble's tickTime is shorter, set it with tick= in the address or Config.TickTime", ErrTimeoutTooShort,
			s.timeout, s.proof.tick, smallestTimeout(s.proof.tick))
	case len(s.leases) > 0: // it is being proven
		if !t.Before(s.deadline()) {
			return false, nil, ErrSessionExpired
		}
	case s.conn == nil: // disconnected has already computed the session's end, from the proof without a lease
		return false, nil, nil
	default:
		// After it has attached again, a slow connection may have used up more of the proof than
		// an opening allows. To attach once more would not help.
		switch s.proof.opening(t, s.timeout, !t.After(s.warm) || l.reattached) {
		case stale:
			l.reattached = true
			s.reattach()
			return false, nil, nil
		case unconfirmed:
			return false, nil, nil
		}
	}
	s.hold(l)
	if l.index == 0 && s.conn != nil && !t.Before(s.warm) { // now there is something to probe for
		s.conn.wakeHeart()
	}
	return true, nil, nil
}

// hold makes l one of the session's leases. mu must be held.
func (s *Session) hold(l *Lease) {
	l.index = len(s.leases)
	s.leases = append(s.leases, l)
}

// isCommit reports whether a success of op shows that a quorum has agreed. (A transaction that
// fails shows it, too, in the body of its answer. But an error in the header may come from a
// server that has asked no other.)
func isCommit(op zkproto.Op) bool {
	switch op {
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL,
		zkproto.OpDelete, zkproto.OpSetData, zkproto.OpSetACL, zkproto.OpMulti:
		return true
	}
	return false
}

// probe sends the next probe if it is due, and returns the time of the next call. Called by
// heartbeat. mu must be held.
func (s *Session) probe(t time.Time) (next time.Time) {
	every, mode := probeEvery(s.proof.tick, s.timeout), s.mode()
	switch {
	case len(s.leases) == 0 && !t.Before(s.warm), mode == modeAlone, mode == modeUnknown && len(s.leases) == 0:
		return t.Add(s.timeout)
	case mode == modeUnknown && t.Before(s.proof.attached.Add(every)):
		// A server alone needs no probe, and its answer to askMode comes soon. If no answer
		// comes, we assume an ensemble.
		return s.proof.attached.Add(every)
	}
	if s.probing != nil {
		if !s.probing.finished.Load() {
			return t.Add(every / 4)
		}
		s.probed()
	}
	if due := s.proof.probeDue(s.timeout); t.Before(due) {
		return due
	}
	node := "/" // it need not exist, and we need not be allowed to read it
	if s.probingFor = nil; len(s.leases) > 0 {
		// Any node proves the session. Probing the leases' nodes in turn also finds removed
		// ones.
		s.turn++
		s.probingFor = s.leases[s.turn%len(s.leases)]
		node = s.probingFor.node
	}
	m := &zkproto.MultiRequest{Ops: []zkproto.MultiOp{{Op: zkproto.OpCheck, Path: node, Version: AnyVersion}}}
	s.probing = newRequest(zkproto.OpMulti, "", m, new(zkproto.MultiResponse))
	s.queue = append(s.queue, s.probing)
	if s.conn != nil {
		s.conn.wakeWriter()
	}
	return t.Add(every)
}

// probed reads the answer to a probe and closes Gone if the node is gone. The reader has
// already recorded the proof. mu must be held.
func (s *Session) probed() {
	r, l := s.probing, s.probingFor
	s.probing, s.probingFor = nil, nil
	results := r.reply.(*zkproto.MultiResponse).Results
	if l == nil || r.err != nil || len(results) != 1 || results[0].Err != zkproto.CodeNoNode || l.isGone {
		return
	}
	l.isGone = true
	if l.gone != nil {
		close(l.gone)
	}
}
