package zkserver

import "time"

// maxEnded is how many bytes of paths the sessions that have ended in a batch may have had before
// others end in the next one. The store refuses a batch of more than 1 GiB, and the server stops
// then.
const maxEnded = 64 << 20

// expirePortion is how many nodes may go with the sessions that end before clients are served
// again. A session counts as expireCost nodes besides its own.
const (
	expirePortion = 3000
	expireCost    = 10
)

// expire ends the sessions that were silent for too long.
func (s *Server) expire() {
	s.owner.tree.Sweep()
	s.expireAt(s.owner.now)
}

// expireAt ends sessions that were silent for too long at the time of a check. The check has allowed
// for delays of this process. If more than a portion of them is to end, expireAt queues itself
// behind the requests that wait by then.
func (s *Server) expireAt(at time.Time) {
	ended := 0
	for _, sess := range s.owner.sessions {
		if at.Sub(sess.touched) < sess.timeout {
			continue
		}
		if s.owner.ended > maxEnded {
			return // the others at the next check
		}
		if ended >= expirePortion {
			s.later(func() { s.expireAt(at) })
			return
		}
		s.cfg.Logger.Info("zkserver: session expired", "session", hexID(sess.id), "timeout", sess.timeout)
		s.counters.expired.Add(1)
		nodes := s.owner.tree.Len()
		s.endSession(sess, func() {})
		ended += expireCost + nodes - s.owner.tree.Len()
	}
}

// endSession removes a session and its nodes, and calls ended when all of them are gone. A session
// with thousands of nodes ends in portions, and other clients are served in between. The store knows
// of a session that is ending, so that the next start goes on with it.
func (s *Server) endSession(sess *session, ended func()) {
	delete(s.owner.sessions, sess.id)
	s.owner.endings++
	if sess.conn != nil {
		sess.conn.owned.session = nil // what it has sent besides is for nothing
	}
	s.endPortion(sess, ended)
}

func (s *Server) endPortion(sess *session, ended func()) {
	o := &s.owner
	size := o.tree.EphemeralsSize(sess.id)
	more := o.tree.EndSession(s.nextTxn(sess.id))
	o.ended += size - o.tree.EphemeralsSize(sess.id)
	if !sess.local { // a power failure does not end its client, and the session must not come back
		o.batch.lasting = true
	}
	if more {
		if !sess.ending {
			sess.ending = true
			s.saveSession(sess)
		}
		s.notify()
		s.later(func() { s.endPortion(sess, ended) })
		return
	}
	o.endings--
	if !sess.local {
		o.others--
	}
	o.batch.changes.DeleteSession(sess.id)
	s.notify()
	if sess.conn != nil {
		s.finish(sess.conn)
	}
	ended()
}

// later calls f behind the requests that wait by then. Portions of long operations take turns, one
// at a time. If the sessions of a batch have had many nodes, the next portion goes into another one.
func (s *Server) later(f func()) {
	o := &s.owner
	if o.portions = append(o.portions, f); len(o.portions) == 1 {
		s.nextPortion()
	}
}

func (s *Server) nextPortion() {
	o := &s.owner
	push := func() {
		s.queue.push(&request{kind: kindCall, call: func() {
			if len(o.portions) == 0 {
				return // see stopPortions
			}
			o.portions[0]()
			o.portions[0] = nil
			if o.portions = o.portions[1:]; len(o.portions) > 0 {
				s.nextPortion()
			}
		}})
	}
	if o.ended > maxEnded {
		o.batch.released = append(o.batch.released, push)
	} else {
		push()
	}
}

// stopPortions does what is left of long operations, as far as the last batch has room. The next
// start ends the sessions that are still ending. Their clients get no answer.
func (s *Server) stopPortions() {
	o := &s.owner
	for len(o.portions) > 0 && o.ended <= maxEnded {
		o.portions[0]()
		o.portions = o.portions[1:]
	}
	for _, c := range o.watchers {
		if c.owned.closing {
			s.finish(c)
		}
	}
}
