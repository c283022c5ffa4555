package zk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/zkproto"
)

// A LeaseMode says what counts as proof that a session lives, while something depends
// on it. See [Session.Lease].
type LeaseMode int

const (
	// LeaseAuto is LeasePing against a single server and LeaseQuorum against an
	// ensemble. Which it is, /zookeeper/config tells; if it cannot be read, an ensemble.
	LeaseAuto LeaseMode = iota
	// LeasePing trusts every answer. That is right for a single server. Behind a
	// follower that has lost its leader it lets a holder go on for seconds after the
	// ensemble has given its lock away.
	LeasePing
	// LeaseQuorum trusts three writes in a row that the ensemble has committed, and
	// sends some where there are none.
	LeaseQuorum
)

// DefaultTickTime is the tickTime of an ensemble if Config does not tell: that of the
// configuration that ZooKeeper comes with.
const DefaultTickTime = 2 * time.Second

// ErrTimeoutTooShort: with this session timeout and tick time, nothing can be proven
// before it is too late. The error says what would do.
var ErrTimeoutTooShort = errors.New("session timeout too short")

// A Lease is the interest in one ephemeral node of a session: while there is one, the
// session's Deadline is a proof. It is safe for concurrent use.
type Lease struct {
	session *Session
	node    string // with the chroot
	gone    chan struct{}
	isGone  bool // guarded by session.mu
	index   int  // in session.leases; guarded by session.mu, -1 once it is released
}

// Gone is closed when a probe has found that the node does not exist any more.
func (l *Lease) Gone() <-chan struct{} { return l.gone }

// Release ends the lease. To release it twice does nothing.
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
}

// Lease makes sure that the session is proven to live, and keeps it so for the sake of
// the ephemeral node at path, until Release: Deadline then moves only on what proves
// the session to those who could end it. Against an ensemble that costs one transaction
// that changes nothing per tenth of the session timeout (or half a tick, if that is
// more), for the whole session, however many leases it has; without a lease there are
// none. When the proof runs out, the session is over.
//
// It returns at once if the session has just written something; else it waits for the
// answer to one probe. Errors: ErrTimeoutTooShort, ErrNoNode if the node is gone,
// ErrSessionExpired, and the cause of ctx.
func (s *Session) Lease(ctx context.Context, path string) (*Lease, error) {
	fail := func(err error) error { return &Error{Op: "lease", Path: path, Err: err} }
	quorum, err := s.quorum(ctx)
	if err != nil {
		return nil, err
	}
	l := &Lease{session: s, node: s.node(path), gone: make(chan struct{})}
	for {
		if ctx.Err() != nil {
			return nil, fail(ended(ctx))
		}
		s.mu.Lock()
		switch {
		case s.ctx.Err() != nil: // of all that ends with the session, its context is the first
			s.mu.Unlock()
			return nil, fail(context.Cause(s.ctx))
		case quorum && s.timeout < smallestTimeout(s.proof.tick):
			err := fmt.Errorf("%w: %v, with a tickTime of %v at least %v are needed", ErrTimeoutTooShort,
				s.timeout, s.proof.tick, smallestTimeout(s.proof.tick))
			s.mu.Unlock()
			return nil, fail(err)
		}
		if !quorum || s.bridged() {
			l.index = len(s.leases)
			s.leases = append(s.leases, l)
			if quorum && l.index == 0 && s.conn != nil { // now there is something to probe for
				s.conn.wakeHeart()
			}
			s.mu.Unlock()
			return l, nil
		}
		s.mu.Unlock()
		if _, err := s.Multi(ctx, CheckOp(path, AnyVersion)); err != nil && !errors.Is(err, ErrConnectionLoss) {
			return nil, err
		}
	}
}

// bridged makes the proof good until the probes of a new lease have taken over, and
// reports whether it is. Called with mu held.
func (s *Session) bridged() bool {
	if len(s.leases) > 0 { // it is being proven
		return now().Before(s.deadline())
	}
	// Pings leave every sixth of the timeout, see heartbeat.
	s.bridge = s.proof.bridge(s.timeout/5, 500*time.Millisecond)
	return s.deadlineFrom(s.quorumBase()).Sub(now()) > s.timeout/2
}

// quorumBase is the moment from which the leader's clock for the session is certain to
// run. Called with mu held.
func (s *Session) quorumBase() time.Time {
	if s.bridge.After(s.proof.touched) {
		return s.bridge
	}
	return s.proof.touched
}

// configNode is where an ensemble describes itself; a server alone keeps it empty.
const configNode = "/zookeeper/config"

// askMode queues the question whether this is an ensemble, before anybody needs to know.
func (s *Session) askMode() {
	s.asked = newRequest(zkproto.OpGetData, configNode, &zkproto.ReadRequest{Path: configNode}, new(dataReply))
	s.queue = append(s.queue, s.asked)
}

// quorum reports whether answers alone prove nothing. It waits until that is known.
func (s *Session) quorum(ctx context.Context) (bool, error) {
	if mode := s.client.cfg.Lease; mode != LeaseAuto {
		return mode == LeaseQuorum, nil
	}
	for {
		s.mu.Lock()
		asked, alone := s.asked, s.alone
		s.mu.Unlock()
		if alone {
			return false, nil
		}
		select {
		case <-asked.done:
			asked.done <- struct{}{} // for the next who asks
		case <-ctx.Done():
			return false, asked.fail(ended(ctx), false)
		}
		s.mu.Lock()
		if asked == s.asked && errors.Is(asked.err, ErrConnectionLoss) && s.over == nil {
			s.askMode()
			if s.conn != nil {
				s.conn.wakeWriter()
			}
			s.mu.Unlock()
			continue
		}
		ensemble := s.needsQuorum()
		s.mu.Unlock()
		if errors.Is(asked.err, ErrSessionExpired) || errors.Is(asked.err, ErrClosed) {
			return false, asked.err
		}
		return ensemble, nil
	}
}

// isCommit reports whether a success of op shows that a quorum has agreed. (So does a
// transaction that fails, in the body of its answer; but an error in the header may come
// from a server that has asked nobody.)
func isCommit(op zkproto.Op) bool {
	switch op {
	case zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpCreateTTL,
		zkproto.OpDelete, zkproto.OpSetData, zkproto.OpSetACL, zkproto.OpMulti:
		return true
	}
	return false
}

// probe sends the next probe if it is due, and says when to ask again. Called by
// heartbeat, with mu held.
func (s *Session) probe(t time.Time) (next time.Time) {
	if len(s.leases) == 0 || !s.needsQuorum() {
		return t.Add(s.timeout)
	}
	every := probeEvery(s.proof.tick, s.timeout)
	if s.probing != nil {
		if !s.probing.finished.Load() {
			return t.Add(every / 4)
		}
		s.probed()
	}
	due := s.proof.last.sent.Add(every)
	if soonest := s.proof.last.acked.Add(s.proof.tick / 2); soonest.After(due) {
		due = soonest
	}
	if t.Before(due) {
		return due
	}
	// One node is as good as another for the session; in turn, each is looked after.
	s.turn++
	l := s.leases[s.turn%len(s.leases)]
	m := &zkproto.MultiRequest{Ops: []zkproto.MultiOp{{Op: zkproto.OpCheck, Path: l.node, Version: AnyVersion}}}
	s.probing, s.probingFor = newRequest(zkproto.OpMulti, "", m, new(zkproto.MultiResponse)), l
	s.queue = append(s.queue, s.probing)
	if s.conn != nil {
		s.conn.wakeWriter()
	}
	return t.Add(every)
}

// probed looks at the answer to a probe. The proof itself was taken by the reader.
// Called with mu held.
func (s *Session) probed() {
	r, l := s.probing, s.probingFor
	s.probing, s.probingFor = nil, nil
	results := r.reply.(*zkproto.MultiResponse).Results
	if r.err != nil || len(results) != 1 || results[0].Err != zkproto.CodeNoNode || l.isGone {
		return
	}
	l.isGone = true
	close(l.gone)
}

// needsQuorum reports whether only commits count as proof. Until the server has
// answered the question, and if it hides the answer, they do. Called with mu held.
func (s *Session) needsQuorum() bool {
	if mode := s.client.cfg.Lease; mode != LeaseAuto {
		return mode == LeaseQuorum
	}
	if !s.alone && s.asked.finished.Load() && s.asked.err == nil {
		s.alone = !bytes.Contains(s.asked.reply.(*dataReply).Data, []byte("server."))
	}
	return !s.alone
}
