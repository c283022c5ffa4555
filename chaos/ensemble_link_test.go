package chaos_test

import (
	"math/rand/v2"
	"time"
)

// A quorumLink is one direction between two servers. Messages arrive in order. While the link is
// held, no message arrives and none is lost.
type quorumLink struct {
	rng     *rand.Rand
	way     way
	slow    time.Duration // additional delay of a message, at most
	held    bool
	last    time.Duration // when the latest message arrives, or would have arrived
	waiting []func()      // messages that would have arrived while it was held
	stalled int           // messages ever held back
}

func newQuorumLink(rng *rand.Rand) *quorumLink {
	return &quorumLink{rng: rng, way: way{base: 50 * time.Microsecond, jitter: 150 * time.Microsecond}}
}

// send runs do at the other server when the message arrives there.
func (s *server) send(to *server, do func()) {
	e := s.e
	l := e.links[[2]int{s.id, to.id}]
	d, _ := l.way.take(l.rng)
	l.last = max(e.now()+d+upTo(l.rng, l.slow), l.last+1)
	e.at(l.last, func() {
		if l.held {
			l.stalled++
			l.waiting = append(l.waiting, do)
			return
		}
		to.handle(do)
	})
}

// whole reports whether messages pass in both directions.
func (e *ensemble) whole(a, b *server) bool {
	return !e.links[[2]int{a.id, b.id}].held && !e.links[[2]int{b.id, a.id}].held
}

// hold stalls one direction, or delivers the stalled messages. It returns how many messages had to
// wait so far.
func (e *ensemble) hold(from, to *server, held bool) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.links[[2]int{from.id, to.id}]
	if l.held == held {
		return l.stalled
	}
	l.held = held
	e.tell("link from server %d to %d: held %v", from.id, to.id, held)
	if !held {
		waiting := l.waiting
		l.waiting = nil
		for _, do := range waiting {
			to.handle(do)
		}
	}
	return l.stalled
}

// slowDown makes one direction slower; by 0 restores its speed.
func (e *ensemble) slowDown(from, to *server, by time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.links[[2]int{from.id, to.id}].slow = by
}

// breakLearner breaks a learner's connection to its leader, at both ends at once. If s is a leader,
// it breaks the connection of one of its learners. It returns false if there is none.
func (e *ensemble) breakLearner(s *server) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := s.toLead
	if l := s.leading; l != nil && len(l.learners) > 0 {
		all := l.inOrder()
		c = all[s.rng.IntN(len(all))]
	}
	if c == nil || !c.learner.up || c.learner.frozen {
		return false
	}
	if c.leaderEnd {
		c.close(c.leader)
	}
	if c.learner.toLead == c {
		c.learner.loseLeader("the connection is broken")
	}
	return true
}

// A learnerConn is the connection of a learner to its leader (LearnerHandler, Learner).
type learnerConn struct {
	leader, learner *server

	// The leader's end:
	heard     time.Duration // arrival of the learner's latest packet
	deadline  int           // the tick until which it counts as a follower (tickOfNextAckDeadline)
	matches   int           // how many entries of the leader's log it has acknowledged
	forwards  bool          // proposals and commits are sent to the learner
	joined    bool          // it has acknowledged NEWLEADER
	unacked   []sentAt      // proposals that it has not acknowledged (SyncLimitCheck)
	leaderEnd bool          // the leader has not closed the connection

	// The learner's end:
	told       time.Duration // arrival of the leader's latest packet
	synced     bool          // it has received UPTODATE
	learnerEnd bool          // the learner has not closed the connection
}

type sentAt struct {
	length int // length of the log including the proposal
	at     time.Duration
}

// toLearner sends a packet to the learner.
func (c *learnerConn) toLearner(do func()) {
	c.leader.send(c.learner, func() {
		if c.learner.toLead == c {
			c.told = c.leader.e.now()
			do()
		}
	})
}

// toLeader sends a packet to the leader.
func (c *learnerConn) toLeader(do func()) {
	c.learner.send(c.leader, func() {
		if l := c.leader.leading; l != nil && c.leaderEnd && l.learners[c.learner.id] == c {
			c.heard = c.leader.e.now()
			if c.joined {
				c.deadline = l.tick + c.leader.e.syncLimit
			}
			do()
		}
	})
}

// close closes one end. The other end learns of it after the packets in flight.
func (c *learnerConn) close(by *server) {
	if by == c.leader {
		if !c.leaderEnd {
			return
		}
		c.leaderEnd = false
		if l := c.leader.leading; l != nil && l.learners[c.learner.id] == c {
			delete(l.learners, c.learner.id)
		}
		c.leader.send(c.learner, func() {
			if c.learner.toLead == c {
				c.learner.loseLeader("the leader has closed the connection")
			}
		})
		return
	}
	if !c.learnerEnd {
		return
	}
	c.learnerEnd = false
	c.learner.send(c.leader, func() {
		if c.leaderEnd {
			c.close(c.leader)
		}
	})
}
