package zkserver

import (
	"time"

	"holdfast/zkproto"
	"holdfast/zkserver/internal/sched"
	"holdfast/zkserver/internal/tree"
)

// owner is the state of the server. It belongs to the owner's goroutine, or to a reader that
// finds the server idle, see serveInline.
type owner struct {
	tree     *tree.Tree
	sessions map[int64]*session
	endings  int                    // sessions that are ending
	portions []func()               // the remaining portions of long operations, see later
	telling  bool                   // one of portions is tellPortion
	others   int                    // sessions that are not local, including those that are ending
	watchers map[tree.Watcher]*conn // connections with a session

	zxid    int64 // the last one given out
	ceiling int64 // zxids up to here are reserved in the store, see nextTxn
	ahead   int64 // by how much zxids have been ahead of the clock at most: it once was fast

	batch *batch
	spare []*request
	ops   []zkproto.MultiOp // reused memory, see decodeMulti

	turns    *sched.Scheduler[*request]
	work     int           // of the current request, see turns.go
	busy     time.Duration // in turns without a pause
	resting  bool          // waiting requests wait until restOver
	restOver *time.Timer

	now       time.Time // when the current requests were taken
	lastCheck time.Time
	lastReap  time.Time

	lastForgot time.Time

	received, notifications, bytesReceived int64
	resetReceived, resetSent               int64 // the values at the last srst

	arrived  time.Duration // when the current request arrived; 0 if its answer is not counted
	draining bool          // no request follows, and the server stops when it has applied those that wait
	stopping bool          // the batch is the last
}

// forgetInterval is how often the owner drops addresses that are no different from a new one.
const forgetInterval = time.Minute

// run is the owner's goroutine. It ends after all others.
func (s *Server) run() {
	committed := make(chan struct{})
	go s.teller.run()
	go func() {
		defer close(committed)
		s.commit()
	}()
	s.own()
	s.endWatches()
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
		if s.nothingAtHand() && !o.draining && (o.resting || !o.turns.Ready()) {
			idle = nil // the token has no use now
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

func (s *Server) handle(r *request) {
	c := r.conn
	s.owner.arrived = r.at
	switch r.kind {
	case kindOperation:
		s.receive(r)
		s.owner.tree.TakeSteps() // steps for the clock are no client's work
		if r.undecoded {
			s.decodeMulti(r)
		}
		unsaved := s.owner.tree.Unsaved()
		s.operate(c, r)
		s.owner.work += stepWork*s.owner.tree.TakeSteps() + max(0, s.owner.tree.Unsaved()-unsaved-len(r.frame))
		if r.undecoded {
			s.doneMulti(r)
		}
		r.recycle()
	case kindConnect:
		s.receive(r)
		s.identify(c, r.certificate...)
		s.connect(c, &r.connect, r.group)
	case kindWord:
		s.owner.arrived = 0
		s.answerWord(c, r)
	case kindDisconnect:
		if !c.owned.closing { // else it is closed after the answer to closeSession
			s.finish(c)
		}
	case kindCall:
		r.call()
	case kindStop:
		s.owner.draining = true
	}
}

func (s *Server) receive(r *request) {
	c := &r.conn.owned
	c.received++
	c.lastOp, c.lastXid = r.op, r.xid
	s.owner.received++
	s.owner.bytesReceived += int64(4 + len(r.frame))
}

// checkInterval returns how often the owner checks the clock: often enough that sessions expire
// within a tick of their timeout, and that containers are checked in time.
func (s *Server) checkInterval() time.Duration {
	interval := min(s.cfg.TickTime/2, s.cfg.ContainerCheckInterval)
	if s.cfg.Linger > 0 {
		interval = min(interval, s.cfg.Linger/2)
	}
	return max(interval, time.Millisecond)
}

// check does the work that is due by the clock.
func (s *Server) check(interval time.Duration) {
	o := &s.owner
	s.applyQueued() // a request that arrived in time must keep its session, although we are slow
	late := o.now.Sub(o.lastCheck) - interval
	held := max(interval, s.cfg.TickTime/2) // a shorter delay does not count against the clocks of sessions
	if since := s.committingSince.Load(); since != 0 && o.now.Sub(s.opened)-time.Duration(since) > held {
		// The disk hangs. Clients get no answers, give up their connections and cannot make new
		// ones. None of that is their fault.
		late = o.now.Sub(o.lastCheck)
	}
	o.lastCheck = o.now
	if late > held/4 {
		s.forgive(late)
	}
	s.expire()
	if !s.batchFull() && !s.tooMuchToTell() && (o.tree.Reaping() || o.now.Sub(o.lastReap) >= s.cfg.ContainerCheckInterval) {
		if !o.tree.Reaping() {
			o.lastReap = o.now
		}
		for _, path := range o.tree.Reapable(s.wallClock()) {
			o.tree.Reap(s.nextTxn(0), path)
		}
		s.notify(nil)
	}
	if o.now.Sub(o.lastForgot) >= forgetInterval {
		o.lastForgot = o.now
		s.forgetAddresses()
	}
	if now := zxidAt(o.now); now > 0 && o.zxid > now+o.ahead { // somebody has set the clock back
		o.ahead = o.zxid - now
		o.batch.changes.PutAhead(o.ahead)
		o.batch.lasting = true
	}
	s.publish()
	if s.trouble.Load() != nil && s.nothingAtHand() {
		o.batch.changes.PutCeiling(o.ceiling) // the store tries again with a commit
	}
	if s.cfg.Linger > 0 && s.lingeredOut() {
		s.cfg.Logger.Info("zkserver: stopping: no client and no session for the linger time", "linger", s.cfg.Linger)
		s.stopListening()
		o.draining = true
	}
}

// forgive extends every timeout of a client by late. While this process was stopped (SIGSTOP, a
// suspended machine), or its disk hung, clients sent their pings in time. The pings still wait in
// the sockets, so the clients' timeouts have not really passed.
func (s *Server) forgive(late time.Duration) {
	s.cfg.Logger.Warn("zkserver: the server was held up; the timeouts of all sessions are extended by this time", "late", late)
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

// lingeredOut decides, together with accept, that the linger is over. It waits for the end of all
// sessions: the next server would give each its full timeout again, and would free the lock of a
// killed holder later.
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
