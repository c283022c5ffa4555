package zk

import (
	"context"
	"math"
)

// send puts reqs into the queue, next to each other, and waits for their answers.
func (s *Session) send(ctx context.Context, reqs []*request) {
	if err := s.enqueue(reqs); err != nil {
		for _, r := range reqs {
			r.complete(r.fail(err, false))
		}
		return
	}
	s.await(ctx, reqs)
}

func (s *Session) enqueue(reqs []*request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	for _, r := range reqs {
		if r.persistent != nil {
			if err := s.watches.persistent.conflict(r.persistent); err != nil {
				return err
			}
			r.persistent.session = s
			s.watches.persistent.arming(r.persistent)
		}
		if r.watch != nil {
			r.watch.session = s
			s.watches.arming[r.watch.armKey()]++
		}
	}
	s.queue = append(s.queue, reqs...)
	if s.conn != nil {
		s.conn.wakeWriter()
	}
	return nil
}

// nextXid returns the number of the next request. The numbers go on from one connection to the
// next. A follower matches a commit to a client's write by session and number alone, also a
// commit of a write that the session made through another server (CommitProcessor.run). If
// numbers began again on each connection, the answer to one write could be taken for that of
// another. mu must be held.
func (s *Session) nextXid() int32 {
	if s.xid == math.MaxInt32 {
		s.xid = 0
	}
	s.xid++
	return s.xid
}

// withdraw takes those of reqs that are still queued out of the queue, and completes them with
// cause. The others were sent: their answers are dropped, and the watches that they may
// register are stopped.
func (s *Session) withdraw(reqs []*request, cause error) {
	s.mu.Lock()
	var back []*request
	for _, r := range reqs {
		if r.watch != nil {
			s.stopWatch(r.watch)
		}
		if r.persistent != nil {
			s.stopPersistent(r.persistent)
		}
		r.left = r.fail(cause, true)
		for i := range s.queue {
			if s.queue[i] == r {
				s.queue = append(s.queue[:i], s.queue[i+1:]...)
				s.forgetArming(r)
				back = append(back, r)
				break
			}
		}
	}
	s.mu.Unlock()
	for _, r := range back {
		r.complete(r.fail(cause, false))
	}
}
