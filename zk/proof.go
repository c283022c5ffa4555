package zk

import "time"

// A quorumProof keeps a time at which the server that expires sessions had certainly heard of
// this session. It is pure; Session.mu guards it.
//
// Only an ensemble's leader expires sessions. A follower answers pings and reads by itself. It
// reports the sessions that it has heard from in its answers to the leader's pings, which come
// every half tick (Learner.ping, Leader.lead). The leader does not touch the session for a
// write that a follower forwards (LeaderZooKeeperServer.submitLearnerRequest). So neither an
// answer nor a committed write proves the session. Three things do.
//
// A new session. Its creation is a write, and starts the leader's clock.
//
// A re-attach, and then a write on the same connection. The server that we attach to asks its
// leader, which touches the session (Learner.validateSession, Leader.revalidateSession). A
// deposed leader may do so, too, so the write is needed: it proves that a quorum still followed
// that leader after the attach. A later leader has started its clock later. Both requests reach
// the same leader, because a connection belongs to one LearnerZooKeeperServer
// (ServerCnxn.zkServer), which is created for one leader. A follower that changes its leader
// closes all connections (Learner.shutdown).
//
// Three writes, W1, W2 and W3, on one connection. W2 is sent half a tick or more after W1 is
// acknowledged, and W3 after W2 is acknowledged. After the commit of W1, the leader sends its
// next ping within half a tick. So this ping precedes the commit of W2 on the same ordered
// link, and the follower answers it before we send W3. That answer, or an earlier one, names
// our session, heard at W1 or later, and precedes W3 on the way back. Hence, when the leader
// commits W3, it has touched the session after W1 was sent. W3's commit also shows that no
// other leader started its clock before W1. For "half a tick" we use half a tick and an eighth,
// for a leader that pings late.
//
// Three writes do not prove the session of a client behind an observer that follows an observer
// master (observerMasterPort, since ZooKeeper 3.6). There the report takes two hops. The
// observer reports the session to the observer master, a follower. The follower reports it to
// the leader in the answer to a later ping. So the leader may not have heard of the session
// when it commits W3.
//
// Otherwise, the proofs hold however long a link between us, the follower and the leader delays
// its traffic, in either direction.
//
// A server alone touches the session at every request.
type quorumProof struct {
	tick    time.Duration
	touched time.Time // the session was touched at this time or later

	// attached is when we asked the server of the current connection to attach the session. It
	// is zero once a write has confirmed the attach.
	attached time.Time

	// commits are writes acknowledged on the current connection, oldest first. Steps are kept,
	// and at most eight others per tick; any selection is valid.
	commits []commit
	step    commit // the latest step: a write sent pingEvery or more after the answer to the step before
}

type commit struct{ sent, acked time.Time }

// created starts the proof of a new session.
func (p *quorumProof) created(sent time.Time) { *p = quorumProof{tick: p.tick, touched: sent} }

// resumed starts again on another connection, whose attach was sent at the given time. The
// session stays proven as far as it was.
func (p *quorumProof) resumed(sent time.Time) {
	p.attached, p.commits, p.step = sent, p.commits[:0], commit{}
}

// committed records a write that was sent and acknowledged at these times.
func (p *quorumProof) committed(sent, acked time.Time) {
	if !p.attached.IsZero() {
		p.touch(p.attached)
		p.attached = time.Time{}
	}
	c := commit{sent, acked}
	isStep := !sent.Before(p.step.acked.Add(pingEvery(p.tick)))
	if isStep {
		p.step = c
	}
	second := len(p.commits) - 1
	for second >= 0 && p.commits[second].acked.After(sent) {
		second--
	}
	if second >= 0 {
		heard := p.commits[second].sent.Add(-pingEvery(p.tick))
		for first := second - 1; first >= 0; first-- {
			if !p.commits[first].acked.After(heard) {
				p.touch(p.commits[first].sent)
				p.commits = p.commits[first:] // older ones prove less
				break
			}
		}
	}
	if n := len(p.commits); isStep || n == 0 || sent.Sub(p.commits[n-1].sent) >= p.tick/8 {
		p.commits = append(p.commits, c)
	}
}

func (p *quorumProof) touch(t time.Time) {
	if t.After(p.touched) {
		p.touched = t
	}
}

// pingEvery is the longest interval that we assume between two pings of the leader.
func pingEvery(tick time.Duration) time.Duration { return tick/2 + tick/8 }

// deadlineFrom returns the end of a proof that the session was touched at base or later. It
// subtracts 1 % of the timeout for clocks that run at different rates, and a guard for a
// scheduler that wakes us late.
func deadlineFrom(base time.Time, timeout time.Duration) time.Time {
	guard := min(500*time.Millisecond, timeout/10)
	return base.Add(timeout - timeout/100 - guard)
}

// An opening says what a session without leases needs before it may grant one.
type opening int

const (
	proven      opening = iota // nothing
	unconfirmed                // a write on the current connection, which has attached recently
	stale                      // another connection, and a write on it
)

// opening compares the proof with the time. Half of the timeout must be left. The first proof of
// a lease comes with its third probe. So if no probes have been sent so far, half of the
// timeout must still be left then.
func (p *quorumProof) opening(now time.Time, timeout time.Duration, probed bool) opening {
	least := timeout / 2
	if !probed {
		least += 2 * probeEvery(p.tick, timeout)
	}
	lasts := func(base time.Time) bool { return deadlineFrom(base, timeout).Sub(now) > least }
	switch {
	case lasts(p.touched):
		return proven
	case lasts(p.attached):
		return unconfirmed
	}
	return stale
}

// probeEvery is the interval of probes. The proof is up to three of them old when an outage begins. So thirteen sixteenths of
// the timeout remain: with 40 s, a command survives 20 s without a leader and the election after them.
func probeEvery(tick, timeout time.Duration) time.Duration {
	return max(pingEvery(tick), timeout/16)
}

// probeDue returns when to send the next probe. The client's own writes in between do not put it
// off, except one that is a step itself. So a step comes in each interval, and at each step, the
// write of two steps before is proven. Hence, while answers come at once, the proof is at most
// three intervals old. That leaves more than two fifths of any timeout that is not too short.
func (p *quorumProof) probeDue(timeout time.Duration) time.Time {
	due := p.step.sent.Add(probeEvery(p.tick, timeout))
	if soonest := p.step.acked.Add(pingEvery(p.tick)); soonest.After(due) {
		return soonest // a probe that is sent earlier proves nothing
	}
	return due
}

// smallestTimeout is the shortest session timeout with which the proof never runs out by
// itself. It has room for three probes that are each one interval late, half a second for a
// late scheduler, and half a second to end a process.
func smallestTimeout(tick time.Duration) time.Duration {
	// With timeouts this short, probeEvery is pingEvery unless tick is tiny. Then the
	// sixteenths of the timeout count: t = 3 (t/16 + pingEvery) + 1s.
	every := pingEvery(tick)
	return max(6*every+time.Second, (3*every+time.Second)*16/13)
}
