package chaos_test

import (
	"math/rand/v2"
	"time"
)

// A quorumLink is one direction between two servers: what one of them sends arrives at the
// other in order. While it is held, nothing arrives, and nothing is lost.
type quorumLink struct {
	rng     *rand.Rand
	way     way
	slow    time.Duration // a message takes up to this in addition
	held    bool
	last    time.Duration // when the latest message arrives, or would have
	waiting []func()      // what would have arrived while it was held
	stalled int           // messages that had to wait, ever
}

func newQuorumLink(rng *rand.Rand) *quorumLink {
	return &quorumLink{rng: rng, way: way{base: 50 * time.Microsecond, jitter: 150 * time.Microsecond}}
}

// send lets do happen at the other server, when the message arrives there.
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

// hold stalls one direction, or lets what has been stalled arrive. It returns how many
// messages had to wait so far.
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

// slowDown makes one direction slower, or as fast as before.
func (e *ensemble) slowDown(from, to *server, by time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.links[[2]int{from.id, to.id}].slow = by
}

// breakLearner breaks the connection of a learner to its leader, at both ends at once; false
// if it has none. Of a leader, it breaks the connection of one of its learners.
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
	heard     time.Duration // when the latest packet of the learner came
	deadline  int           // the tick until which it counts as one that follows (tickOfNextAckDeadline)
	matches   int           // how many entries of the leader's log it has acknowledged
	forwards  bool          // proposals and commits are sent to it
	joined    bool          // it has acknowledged NEWLEADER
	unacked   []sentAt      // proposals that it has not acknowledged (SyncLimitCheck)
	leaderEnd bool          // the leader has not closed it

	// The learner's end:
	told       time.Duration // when the latest packet of the leader came
	synced     bool          // it has UPTODATE
	learnerEnd bool          // the learner has not closed it
}

type sentAt struct {
	length int // of the log, with the proposal
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

// close closes one end. The other is told behind what is under way.
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
