package chaos_test

import "holdfast/zkproto"

// How writes are ordered and reach every server (ProposalRequestProcessor, Leader), and the
// leader's pings, whose answers report sessions to it (Leader.lead, Learner.ping).

// A txn is one entry of the log. All servers apply it in the same way.
type txn struct {
	zxid    int64
	session int64
	xid     int32 // xid of the client's request
	op      zkproto.Op
	ops     []zkproto.MultiOp // several for a multi
	timeout int32             // timeout of a new session
	err     zkproto.Code      // the leader's reason for refusing it
	at      int64             // the leader's clock, in milliseconds
}

// propose appends t to the leader's log.
func (l *leading) propose(t *txn) {
	s, e := l.s, l.s.e
	l.counter++
	t.zxid = l.epoch<<32 | l.counter
	t.at = e.began.Add(e.now() + e.ahead).UnixMilli()
	s.log = append(s.log, t)
	length := len(s.log)
	for _, c := range l.inOrder() {
		if c.forwards && !c.learner.observer {
			c.unacked = append(c.unacked, sentAt{length, e.now()})
			c.toLearner(func() {
				c.learner.append(t, length)
				c.toLeader(func() {
					c.acknowledge(length)
					l.commit()
				})
			})
		}
	}
	s.in(upTo(s.rng, e.applyLag), func() {
		if s.leading == l {
			l.synced = max(l.synced, length)
			l.commit()
		}
	})
}

// append adds t to a learner's log.
func (s *server) append(t *txn, length int) {
	if len(s.log) != length-1 {
		panic("a learner's log has a gap")
	}
	s.log = append(s.log, t)
}

// acknowledge records how much of the log the learner has.
func (c *learnerConn) acknowledge(length int) {
	c.matches = max(c.matches, length)
	for len(c.unacked) > 0 && c.unacked[0].length <= length {
		c.unacked = c.unacked[1:]
	}
}

// commit commits what a quorum has.
func (l *leading) commit() {
	s, e := l.s, l.s.e
	for l.established && s.committed < len(s.log) {
		length, votes := s.committed+1, 0
		if l.synced >= length {
			votes++
		}
		for _, c := range l.learners {
			if c.joined && !c.learner.observer && c.matches >= length {
				votes++
			}
		}
		if votes < e.quorum() {
			return
		}
		s.committed = length
		t := s.log[length-1]
		for _, c := range l.inOrder() {
			if !c.forwards {
				continue
			}
			inform := c.learner.observer
			c.toLearner(func() {
				if inform {
					c.learner.append(t, length)
				}
				c.learner.commitTo(length)
			})
		}
		// Requests are answered in order of arrival, the requests of the leader's own clients last.
		for _, answer := range l.waiting[length] {
			answer()
		}
		delete(l.waiting, length)
		s.in(upTo(s.rng, e.applyLag), func() { s.applyTo(length) })
	}
}

// commitTo commits a learner's log up to this length.
func (s *server) commitTo(length int) {
	s.committed = max(s.committed, length)
	s.applyTo(s.committed)
}

// beat runs every half tick: the leader checks that it still has a quorum, and pings.
func (l *leading) beat() {
	s, e := l.s, l.s.e
	if s.leading != l || e.standalone {
		return
	}
	if l.odd {
		l.tick++
		alive := 1
		for _, c := range l.learners {
			if !c.learner.observer && l.tick <= c.deadline {
				alive++
			}
		}
		if alive < e.quorum() {
			s.stepDown("too few follow it")
			return
		}
	}
	l.odd = !l.odd
	for _, c := range l.inOrder() {
		l.ping(c)
	}
	s.in(e.tick/2+upTo(s.rng, e.tick/64), l.beat)
}

func (l *leading) ping(c *learnerConn) {
	e := l.s.e
	switch {
	case !c.forwards:
	case len(c.unacked) > 0 && e.now()-c.unacked[0].at >= e.ticks(e.syncLimit):
		e.tell("server %d: server %d acknowledges nothing", l.s.id, c.learner.id)
		c.close(l.s)
	default:
		c.toLearner(func() {
			f := c.learner
			if !c.synced {
				return
			}
			touched := f.touched
			f.touched = make(map[int64]int32)
			c.toLeader(func() {
				for id, timeout := range touched {
					l.touch(id, timeout)
				}
			})
		})
	}
}
