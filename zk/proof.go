package zk

import "time"

// A quorumProof knows since when the leader of an ensemble must have known that the
// session lives. A follower answers pings and reads by itself, and tells the leader of
// the sessions it has heard only in its replies to the leader's own pings, every half
// tick (Learner.ping, Leader.lead). A write that it passes on does not count either
// (LeaderZooKeeperServer). So neither proves anything alone; three writes in a row do:
//
// Let W1 be acknowledged, W2 sent at least half a tick after that, W3 sent after the
// acknowledgement of W2, and acknowledged. The leader's first ping after the commit of
// W1 left within half a tick, so before the commit of W2, on the same ordered link. The
// follower answered it before it passed on W3, and the answer named our session, heard
// at W1 or later. Hence when W3 is acknowledged, the leader has touched the session at a
// time after W1 was sent, and does not expire it before that time plus the timeout. A
// new leader starts the clock of every session anew, after W1.
//
// Half a tick, and an eighth for a leader that pings late. Any writes of the session do,
// not only probes. It is pure; Session.mu guards it.
type quorumProof struct {
	tick    time.Duration
	touched time.Time // the leader has touched the session at this time or later

	// attached is when we asked a server to resume the session; the server asks the
	// leader, who touches it. A deposed leader may answer too, so a commit must confirm
	// it. Zero when there is nothing to confirm.
	attached time.Time

	// commits are writes acknowledged on the present connection, oldest first: not all of
	// them, but at most eight in a tick, since any choice of them is a valid one.
	commits []commit
	last    commit // the latest of all
}

type commit struct{ sent, acked time.Time }

// created begins the proof: making a session is a write, and starts the leader's clock.
func (p *quorumProof) created(sent time.Time) { *p = quorumProof{tick: p.tick, touched: sent} }

// resumed begins again on another connection. What was proven stays.
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

// pingEvery is the longest time between two pings of the leader that is reckoned with.
func pingEvery(tick time.Duration) time.Duration { return tick/2 + tick/8 }

// bridge is what the latest write alone proves, until three of them prove more: the
// follower that passed it on heard our pings, which are at most beat apart, and told the
// leader of them in time, provided that it was not held up for longer than stall. A
// leader that stood still for about the whole session timeout breaks that; after it the
// write may be committed at the very moment at which the session expires.
func (p *quorumProof) bridge(beat, stall time.Duration) time.Time {
	if p.last.sent.IsZero() {
		return time.Time{}
	}
	return p.last.sent.Add(-max(beat, pingEvery(p.tick)+stall))
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
