package zkserver

import (
	"time"

	"holdfast/zkserver/internal/store"
)

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
		if s.batchFull() {
			return // the others at the next check
		}
		if ended >= expirePortion || s.tooMuchToTell() {
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
	sess.unwatch()
	s.owner.endings++
	if sess.conn != nil {
		sess.conn.owned.session = nil // its further requests are dropped
	}
	s.endPortion(sess, ended)
}

func (s *Server) endPortion(sess *session, ended func()) {
	o := &s.owner
	more := o.tree.EndSession(s.nextTxn(sess.id))
	if !sess.local { // a power failure does not end its client, and the session must not come back
		o.batch.lasting = true
	}
	if more {
		if !sess.ending {
			sess.ending = true
			s.saveSession(sess)
		}
		s.notify(nil)
		s.later(func() { s.endPortion(sess, ended) })
		return
	}
	o.endings--
	if !sess.local {
		o.others--
	}
	o.batch.changes.DeleteSession(sess.id)
	s.notify(sess.conn)
	if sess.conn != nil {
		s.finish(sess.conn)
	}
	ended()
}

// stopPortions does the rest of the long operations, as far as the last batch has room. The next
// start ends the sessions that are still ending. Their clients get no answer.
func (s *Server) stopPortions() {
	o := &s.owner
	for len(o.portions) > 0 && !s.batchFull() {
		o.portions[0]()
		o.portions = o.portions[1:]
	}
	for _, c := range o.watchers {
		if c.owned.closing {
			s.finish(c)
		}
	}
}

// maxMarked is how many sessions endLoaded marks in one batch.
const maxMarked = 1 << 20

// endLoaded ends sessions at the start, before there are clients. Their nodes may need several batches. The
// first of these says of the sessions that they are ending, in case there is no other.
func (s *Server) endLoaded(sessions []*session) error {
	o := &s.owner
	marked := false
	for i, sess := range sessions {
		for more := true; more; {
			more = o.tree.EndSession(s.nextTxn(sess.id))
			if !s.batchFull() {
				continue
			}
			for _, sess := range sessions[i:min(len(sessions), i+maxMarked)] {
				if !marked && !sess.ending {
					sess.ending = true
					s.saveSession(sess)
				}
			}
			marked = true
			if err := s.commitLoaded(); err != nil {
				return err
			}
		}
		if !sess.local { // a power failure does not end its client, and the session must not come back
			o.batch.lasting = true
		}
		o.batch.changes.DeleteSession(sess.id)
	}
	return nil
}

// commitLoaded commits the batch, before there are clients.
func (s *Server) commitLoaded() error {
	b := s.takeBatch()
	if b == nil {
		return nil
	}
	defer s.committingSince.Store(0)
	return s.store.Commit(&b.changes)
}

// Bounds of a batch. Work waits for the next batch if this one has fullBatch bytes for the store. So the
// store can always take a batch, whatever the last request has added: nothing writes more than maxWrite.
const (
	fullBatch = store.MaxBatch / 2
	maxWrite  = store.MaxBatch * 3 / 8
)

// batchFull reports whether further work waits for the next batch.
func (s *Server) batchFull() bool {
	return s.owner.batch.changes.Len()+s.owner.tree.Unsaved() >= fullBatch
}
