package zkserver

import (
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/sched"
	"holdfast/zkserver/internal/tree"
)

// owner is the state of the server. It belongs to the owner's goroutine, and to a reader that
// finds the server idle, see serveInline.
type owner struct {
	tree     *tree.Tree
	sessions map[int64]*session
	endings  int                    // sessions that are ending
	portions []func()               // what is left to do of long operations, see later
	others   int                    // sessions that are not local, those that are ending included
	watchers map[tree.Watcher]*conn // connections with a session

	zxid    int64 // the last one given out
	ceiling int64 // zxids up to here are reserved in the store, see nextTxn

	batch  *batch
	ended  int // bytes of the paths of sessions that have ended in this batch
	spare  []*request
	ops    []zkproto.MultiOp // room, see decodeMulti
	record []byte            // room, see seal

	turns    *sched.Scheduler[*request]
	work     int           // of the request at hand, see turns.go
	busy     time.Duration // in turns one after the other
	resting  bool          // waiting requests wait until restOver
	restOver *time.Timer

	now       time.Time // when the requests at hand were taken
	lastCheck time.Time
	lastReap  time.Time

	lastForgot time.Time

	received, notifications, bytesReceived int64
	resetReceived, resetSent               int64 // what srst begins at

	arrived  time.Duration // when the request at hand came; 0 if its answer is not counted
	stopping bool
}

// forgetInterval is how often the owner drops addresses that are no different from a new one.
const forgetInterval = time.Minute

// run is the owner's goroutine, and the last one to end.
func (s *Server) run() {
	committed := make(chan struct{})
	go s.teller.run()
	go func() {
		defer close(committed)
		s.commit()
	}()
	s.own()
	close(s.commits)
	<-committed
	s.teller.finish()
	s.readers.Wait()
	s.writers.Wait()
	if err := s.store.Close(); err != nil {
		s.mu.Lock()
		if s.err == nil {
			s.err = err
		}
		s.mu.Unlock()
	}
	close(s.done)
}

// own applies requests until the server stops.
func (s *Server) own() {
	o := &s.owner
	interval := s.checkInterval()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	defer o.restOver.Stop()
	s.owning.Lock()
	defer s.owning.Unlock()
	for over := false; !over; {
		idle := s.idle
		if s.nothingAtHand() && (o.resting || !o.turns.Ready()) {
			idle = nil // there is nothing to do with the token
		}
		s.owning.Unlock()
		var due func()
		select {
		case <-s.queue.wake:
			due = s.applyQueued
		case <-o.restOver.C:
			due = func() { o.resting = false }
		case <-idle:
			due = func() {
				s.turn()
				over = o.stopping // the batch just handed over was the last
			}
		case <-ticker.C:
			due = func() { s.check(interval) }
		case <-s.quit:
		}
		s.owning.Lock()
		if due == nil {
			return
		}
		due()
	}
}

func (s *Server) nothingAtHand() bool {
	return s.owner.batch.empty() && !s.owner.tree.Changed()
}

func (s *Server) handle(r *request) {
	c := r.conn
	s.owner.arrived = r.at
	switch r.kind {
	case kindOperation:
		s.receive(r)
		s.owner.tree.TakeSteps() // steps of the clock are no client's work
		if r.undecoded {
			s.decodeMulti(r)
		}
		s.operate(c, r)
		s.owner.work += stepWork * s.owner.tree.TakeSteps()
		if r.undecoded {
			s.doneMulti(r)
		}
		r.recycle()
	case kindConnect:
		s.receive(r)
		s.identify(c, r.certificate...)
		s.connect(c, &r.connect)
	case kindWord:
		s.owner.arrived = 0
		s.answerWord(c, r)
	case kindDisconnect:
		if !c.owned.closing { // else it ends behind the answer to closeSession
			s.finish(c)
		}
	case kindCall:
		r.call()
	case kindStop:
		s.stopPortions()
		// The exact ceiling, so that a planned restart leaves no gap in the zxids.
		s.owner.batch.changes.PutCeiling(s.owner.zxid)
		s.owner.stopping = true
	}
}

func (s *Server) receive(r *request) {
	c := &r.conn.owned
	c.received++
	c.lastOp, c.lastXid = r.op, r.xid
	s.owner.received++
	s.owner.bytesReceived += int64(4 + len(r.frame))
}

// checkInterval is how often the owner looks at the clock: often enough for sessions
// to expire within a tick of their timeout, and for containers to be looked at in time.
func (s *Server) checkInterval() time.Duration {
	interval := min(s.cfg.TickTime/2, s.cfg.ContainerCheckInterval)
	if s.cfg.Linger > 0 {
		interval = min(interval, s.cfg.Linger/2)
	}
	return max(interval, time.Millisecond)
}

// check does what is due by the clock.
func (s *Server) check(interval time.Duration) {
	o := &s.owner
	s.applyQueued() // who has spoken in time must not expire for our slowness
	late := o.now.Sub(o.lastCheck) - interval
	held := max(interval, s.cfg.TickTime/2) // less is no reason to doubt the clocks of sessions
	if since := s.committingSince.Load(); since != 0 && o.now.Sub(s.opened)-time.Duration(since) > held {
		// The disk stands still: clients get no answers, give up their connections and
		// cannot make new ones. None of that is their fault.
		late = o.now.Sub(o.lastCheck)
	}
	o.lastCheck = o.now
	if late > held/4 {
		s.forgive(late)
	}
	s.expire()
	if o.tree.Reaping() || o.now.Sub(o.lastReap) >= s.cfg.ContainerCheckInterval {
		if !o.tree.Reaping() {
			o.lastReap = o.now
		}
		for _, path := range o.tree.Reapable(o.now.UnixMilli()) {
			o.tree.Reap(s.nextTxn(0), path)
		}
		s.notify()
	}
	if o.now.Sub(o.lastForgot) >= forgetInterval {
		o.lastForgot = o.now
		s.forgetAddresses()
	}
	s.publish()
	if s.cfg.Linger > 0 && s.lingeredOut() {
		s.cfg.Logger.Info("zkserver: no client and no session for a while, stopping", "linger", s.cfg.Linger)
		s.stopListening()
		o.batch.changes.PutCeiling(o.zxid)
		o.stopping = true
	}
}

// forgive takes time off every clock that runs against a client. If this process was
// stopped (SIGSTOP, a suspended machine) or its disk was, then pings that were sent in
// time are still waiting in the sockets, and the timeouts that seem to have passed did
// not pass for those who sent them.
func (s *Server) forgive(late time.Duration) {
	s.cfg.Logger.Warn("zkserver: was held up; sessions get the time back", "late", late)
	for _, sess := range s.owner.sessions {
		sess.touched = earlier(sess.touched.Add(late), s.owner.now)
	}
	s.mu.Lock()
	s.idleSince = s.idleSince.Add(late)
	s.mu.Unlock()
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// lingeredOut decides, together with accept, that nobody comes any more. It waits for the end
// of all sessions: the next server would give each its full timeout again, and the lock of a
// killed holder would be free later.
func (s *Server) lingeredOut() bool {
	if len(s.owner.sessions)+s.owner.endings > 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) > 0 || s.owner.now.Sub(s.idleSince) < s.cfg.Linger {
		return false
	}
	s.stopping = true
	return true
}
