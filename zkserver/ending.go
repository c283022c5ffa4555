package zkserver

import "time"

// maxEnded bounds the bytes of the paths of all sessions that end in one batch. Further sessions end
// in the next batch. The store refuses a batch of more than 1 GiB, and the server stops then.
const maxEnded = 64 << 20

// expirePortion is how many nodes of expired sessions the server removes before it serves clients
// again. Each session counts as expireCost nodes besides its own.
const (
	expirePortion = 3000
	expireCost    = 10
)

// expire ends the sessions that were silent for longer than their timeout.
func (s *Server) expire() {
	s.owner.tree.Sweep()
	s.expireAt(s.owner.now)
}

// expireAt ends sessions whose timeout had passed at the time of a check. The check has already
// allowed for delays of this process. If more than a portion must end, expireAt queues itself
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

// endSession removes a session and its nodes, and calls ended when all of them are removed. A session
// with thousands of nodes ends in portions, and other clients are served in between. The store
// records that the session is ending, so the next start continues.
func (s *Server) endSession(sess *session, ended func()) {
	delete(s.owner.sessions, sess.id)
	s.owner.endings++
	if sess.conn != nil {
		sess.conn.owned.session = nil // its further requests are dropped
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
// at a time. If the sessions that ended in a batch had many nodes, the next portion waits for the
// next batch.
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

// stopPortions does the rest of the long operations, as far as the last batch has room. The next
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
