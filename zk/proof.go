package zk

import "time"

// A quorumProof knows a time at which the server that expires sessions had certainly heard of
// this one.
// It is pure; Session.mu guards it.
//
// An ensemble's leader alone expires sessions. A follower answers pings and reads by
// itself. It tells the leader which sessions it has heard in its answers to the leader's
// pings, every half tick (Learner.ping, Leader.lead). A write that it passes on tells the
// leader nothing (LeaderZooKeeperServer.submitLearnerRequest). So neither an answer nor a
// committed write proves the session. Three things do.
//
// A new session: making it is a write, and starts the leader's clock.
//
// A re-attach, and then a write on the same connection. The server that we attach to asks
// its leader, and that one touches the session (Learner.validateSession,
// Leader.revalidateSession). A leader that was deposed may do so, too, so the write is
// needed: it proves that a quorum still followed that leader after the attach. A leader that
// came later has started its clock later. Both requests reach the same leader, because a
// connection belongs to one LearnerZooKeeperServer (ServerCnxn.zkServer), which is made for
// one leader; a follower that changes its leader closes all connections
// (Learner.shutdown).
//
// Three writes, W1, W2 and W3, on one connection. W2 is sent half a tick or more after W1 is
// acknowledged, and W3 after W2 is acknowledged. The leader's first ping after the commit of
// W1 leaves within half a tick. So it is ahead of the commit of W2 on the same ordered link,
// and the follower answers it before we send W3. That answer, or one before it, names our
// session, heard at W1 or later, and is ahead of W3 on the way back. Hence the leader has
// touched the session after W1 was sent when it commits W3. W3's commit also shows that no
// other leader started its clock before W1. Half a tick means half a tick and an eighth, for
// a leader that pings late.
//
// Three writes do not prove the session of a client behind an observer that follows an observer
// master (observerMasterPort, since ZooKeeper 3.6). There the report takes two hops: the observer
// names the session to the observer master, a follower, and the follower names it to the leader
// in the answer to a later ping. So the leader may not have heard of the session when it commits
// W3.
//
// Otherwise, none of this depends on how long a link between us, the follower and the leader holds up
// what it carries, in either direction.
//
// A server alone touches the session at every request.
type quorumProof struct {
	tick    time.Duration
	touched time.Time // the session was touched at this time or later

	// attached is when we asked the server of the present connection to go on with the
	// session. It is zero when a write has confirmed it.
	attached time.Time

	// commits are writes acknowledged on the present connection, oldest first: not all of
	// them, but at most eight in a tick, since any choice of them is a valid one.
	commits []commit
	last    commit // the latest of all
}

type commit struct{ sent, acked time.Time }

// created begins the proof of a new session.
func (p *quorumProof) created(sent time.Time) { *p = quorumProof{tick: p.tick, touched: sent} }

// resumed begins again on another connection, which was asked for at the time given. What
// was proven stays.
func (p *quorumProof) resumed(sent time.Time) {
	p.attached, p.commits, p.last = sent, p.commits[:0], commit{}
}

// committed takes note of a write that was sent and acknowledged at these times.
func (p *quorumProof) committed(sent, acked time.Time) {
	if !p.attached.IsZero() {
		p.touch(p.attached)
		p.attached = time.Time{}
	}
	p.last = commit{sent, acked}
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
	if n := len(p.commits); n == 0 || sent.Sub(p.commits[n-1].sent) >= p.tick/8 {
		p.commits = append(p.commits, p.last)
	}
}

func (p *quorumProof) touch(t time.Time) {
	if t.After(p.touched) {
		p.touched = t
	}
}

// pingEvery is the longest time between two pings of the leader that we assume.
func pingEvery(tick time.Duration) time.Duration { return tick/2 + tick/8 }

// deadlineFrom is the end of a proof that the session was touched at base or later: 1 % of
// the timeout is taken off for clocks that run at different rates, and a guard for a
// scheduler that wakes us late.
func deadlineFrom(base time.Time, timeout time.Duration) time.Time {
	guard := min(500*time.Millisecond, timeout/10)
	return base.Add(timeout - timeout/100 - guard)
}

// An opening says what a session without leases needs before it may grant one.
type opening int

const (
	proven      opening = iota // nothing
	unconfirmed                // a write on the present connection, which has attached lately
	stale                      // another connection, and a write on that
)

// opening compares the proof with the time: half of the timeout must be ahead, so that the
// probes of a lease have time to go on with the proof.
func (p *quorumProof) opening(now time.Time, timeout time.Duration) opening {
	lasts := func(base time.Time) bool { return deadlineFrom(base, timeout).Sub(now) > timeout/2 }
	switch {
	case lasts(p.touched):
		return proven
	case lasts(p.attached):
		return unconfirmed
	}
	return stale
}

// probeEvery is how often a session with a timeout is probed: not so often that a probe
// is sent too soon after the answer to the last, which would prove nothing.
func probeEvery(tick, timeout time.Duration) time.Duration {
	return max(pingEvery(tick), timeout/10)
}

// smallestTimeout is the shortest session timeout with which the proof is always ahead:
// room for three probes that are late by as much as they are apart, and half a second
// each for a scheduler that is late and for the end of a process.
func smallestTimeout(tick time.Duration) time.Duration {
	// With timeouts this short, probeEvery is pingEvery unless tick is tiny; then the
	// tenths of the timeout count: t = 3 (t/10 + pingEvery) + 1s.
	every := pingEvery(tick)
	return max(6*every+time.Second, (3*every+time.Second)*10/7)
}
