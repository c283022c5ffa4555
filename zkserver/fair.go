package zkserver

import (
	"time"

	"holdfast/zkproto"
)

// One client may have hundreds of requests under way, and each may be a megabyte, or be
// answered by one, or tell thousands of watchers. So that nobody waits for all of them, each
// connection has a share of a batch, which everybody whose answers are in it waits for: what
// it has sent beyond that waits for a later one, and everybody else's new requests come
// before it.
//
// Work is counted, not timed: the same requests make the same shares on every machine.
// Bytes of requests and answers count once; the rest in what a byte costs.
const (
	requestWork = 512
	notifyWork  = 1024 // each watcher that is told
	multiWork   = 32   // each operation of a transaction
	stepWork    = 1    // each step of the tree, see tree.TakeSteps

	// roundWork is the share of a connection. The request that exceeds it is the last, and
	// what it exceeds it by comes off the next shares, down to roundDebt.
	roundWork = 128 << 10
	roundDebt = 2 << 20

	// backlogWork is what of a batch is for all together that have had to wait: who is new
	// waits for no more than that, and the last request of it.
	backlogWork = 512 << 10

	// longRounds is after how much time in rounds that leave work the owner sleeps. While no
	// goroutine does, Go looks every 10 ms only for what has come from the network.
	longRounds = time.Millisecond
)

// applyQueued works off one round.
func (s *Server) applyQueued() {
	o := &s.owner
	items := s.queue.take(o.spare)
	o.now = time.Now()
	o.round++
	o.waitingForTurn, o.waitingForBatch, o.largeWaits = false, false, false
	for i, r := range items {
		items[i] = nil
		s.heard(r)
		switch c := r.conn; {
		case r.kind == kindStop:
			// Everything before it has been taken and is answered.
			for _, w := range append(o.waiting, o.late...) {
				for _, r := range w.owned.waits {
					s.handle(r)
				}
				w.owned.waits = nil
			}
			o.waiting, o.late = nil, nil
			s.handle(r)
		case c == nil:
			s.handle(r)
		case len(c.owned.waits) > 0 || !s.applyInTurn(r):
			// What makes the one before it wait may not concern this one; but the requests
			// of a client are answered in their order.
			if len(c.owned.waits) == 0 {
				o.late = append(o.late, c)
			}
			c.owned.waits = append(c.owned.waits, r)
			if sess := c.owned.session; sess != nil && c.owned.admitted && r.kind == kindOperation {
				sess.touched = o.now // its client is not silent
			}
			o.waitingForTurn = o.waitingForTurn || o.pausing
		default:
			o.small = o.small || !o.ping && !s.alone(c)
		}
	}
	o.spare = items
	if !o.pausing && !o.resting {
		s.applyWaiting()
	}
	o.waiting = append(o.waiting, o.late...)
	clear(o.late)
	o.late = o.late[:0]
	if o.waitingForBatch && o.batch.empty() && !o.tree.Changed() {
		// There is nothing to hand over: those who have had more than their share pay it back
		// at once, and whoever sent the large requests has gone.
		o.batch.large, o.batch.backlog, o.waitingForTurn = 0, 0, true
		o.shares++
	}
	s.nextTurn()
	s.publish()
}

// applyWaiting applies of what waits as much as is for one batch. It looks at clients and
// not at requests: those of one that does not read wait for long, and would cost everybody
// else's requests a look at each.
func (s *Server) applyWaiting() {
	o := &s.owner
	before := len(o.waiting)
	left, served := o.waiting[:0], o.served[:0]
	for i, c := range o.waiting {
		if o.batch.backlog >= backlogWork {
			left = append(left, o.waiting[i:]...)
			o.waitingForBatch = true
			break
		}
		waits, n := c.owned.waits, 0
		for n < len(waits) && o.batch.backlog < backlogWork && s.applyInTurn(waits[n]) {
			waits[n] = nil
			o.batch.backlog += o.work
			n++
		}
		o.waitingForBatch = o.waitingForBatch || n < len(waits) && o.batch.backlog >= backlogWork
		switch c.owned.waits = waits[n:]; {
		case n == len(waits):
			c.owned.waits = nil
		case n > 0:
			served = append(served, c)
		default:
			left = append(left, c)
		}
	}
	o.waiting = append(left, served...) // who has had something goes behind who has not
	clear(o.waiting[len(o.waiting):before])
	o.served = served
	clear(served)
}

// nextTurn sees to it that what waits for nothing else has its turn. An owner that has been
// at it for long leaves the processor to others for as long.
func (s *Server) nextTurn() {
	o := &s.owner
	switch {
	case o.pausing:
	case !o.waitingForTurn:
		o.busy = 0
	default:
		if o.busy += time.Since(o.now); o.busy < longRounds {
			s.queue.again()
			return
		}
		o.pausing = true
		o.turn.Reset(o.busy)
		o.busy = 0
	}
}

// applyInTurn applies r and returns true, or false if r has to wait for another round.
func (s *Server) applyInTurn(r *request) bool {
	o := &s.owner
	conn, size := r.conn, len(r.frame) // r is given back when it has been applied
	c := &conn.owned
	alone, share := s.alone(conn), roundWork
	if alone {
		share = backlogWork
	}
	if c.shares != o.shares {
		// After debts of several shares, all batches since then have paid.
		c.spent = max(0, c.spent-int(min(o.shares-c.shares, roundDebt/roundWork))*share)
		c.shares = o.shares
	}
	switch {
	case len(c.staged)+int(conn.unread.Load()) > pauseBytes && !conn.gone.Load():
		return false // until handOver or taken
	case c.spent >= share:
		o.waitingForBatch = true // until handOver
		return false
	}
	if large := s.largeBytes(r, alone); large > 0 {
		if !o.largeMay && !alone || o.batch.large >= largeBatch {
			o.largeWaits = true // for applyLarge
			return false
		}
		o.batch.large += large
	}
	o.ping = r.op == zkproto.OpPing
	o.work = requestWork + size
	before := len(c.staged)
	s.handle(r)
	o.work += max(len(c.staged)-before, 0)
	c.spent = min(c.spent+o.work, roundDebt)
	conn.leaveRoom(size)
	return true
}

// Large requests wait until the committer is idle, and then go with what is at hand. So they
// do not gather for the commit after the one that is under way, where whoever sends
// something small in the meantime would wait for both. After a commit with large requests or
// with more than a share of what had to wait, and if anybody has sent who had nothing
// waiting, server and disk are theirs for twice as long as it took, and at most maxRest.
const maxRest = 100 * time.Millisecond

func restAfter(began time.Time) time.Time {
	now := time.Now()
	return now.Add(min(2*now.Sub(began), maxRest))
}

// rest is called with the token of s.idle in hand.
func (s *Server) rest() {
	o := &s.owner
	if left := time.Until(s.restUntil); left > 0 && o.small && !o.resting && !o.stopping {
		o.resting, o.small = true, false
		o.restOver.Reset(left)
	}
}

// mayApplyLarge says whether there is something for applyLarge to do.
func (o *owner) mayApplyLarge() bool { return o.largeWaits && !o.resting && !o.pausing }

// applyLarge is called with the token of s.idle in hand.
func (s *Server) applyLarge() {
	o := &s.owner
	if !o.mayApplyLarge() {
		return
	}
	o.now = time.Now()
	o.round++
	o.largeMay, o.largeWaits = true, false
	s.applyWaiting()
	o.largeMay = false
	s.restUntil = restAfter(o.now) // or longer, if there is something to commit
	s.publish()
}

// A request that is over a limit makes the reader of its connection rest: a refusal costs as
// much as an answer, and who does not heed the first goes on for ever.
const (
	penalty    = 200 * time.Microsecond
	maxPenalty = 100 * time.Millisecond
)

// servePenalty is called by the reader: it waits for what the owner has put on c.
func (c *conn) servePenalty() bool {
	n := c.penalties.Swap(0)
	if n == 0 {
		return true
	}
	rest := time.NewTimer(min(time.Duration(n)*penalty, maxPenalty))
	defer rest.Stop()
	select {
	case <-rest.C:
		return true
	case <-c.stop:
	case <-c.quit:
	}
	return false
}

// pauseBytes is how much may wait for a client before its requests do. Only notifications,
// which it does not ask for, can add to it then.
const pauseBytes = 256 << 10

// taken is called by the writer when the network has taken n bytes.
func (c *conn) taken(n int) {
	if left := c.unread.Add(-int64(n)); left <= pauseBytes && left+int64(n) > pauseBytes {
		c.server.queue.again()
	}
}

// A request is large if it or its answer takes more than the buffers that are kept for
// others. Those that wait for the owner are bounded by their bytes, others by
// Limits.Outstanding.
const (
	largeRequest = 4096
	largeAnswer  = maxStage
	largeWaiting = 1 << 20
	largeBatch   = 256 << 10 // what of them goes into one commit, which everybody else's small writes wait for
)

// largeBytes is what r and its answer have, or 0 if neither is large. The answer counts
// because it is put together by the owner, and comes at once for each new connection, which
// has its share: it is what who asks, reads nothing and comes again makes the most of.
func (s *Server) largeBytes(r *request, alone bool) int {
	n := 0
	if size := len(r.frame); size > largeRequest {
		n = size
	}
	if !r.weighed { // once: while it waits it is looked at for everybody else's requests
		r.wants, r.weighed = s.answerSize(r), true
	}
	if r.wants > largeAnswer && !alone && !r.conn.gone.Load() {
		n += r.wants
	}
	return n
}

// waitForRoom is called by the reader before it hands over a request.
func (c *conn) waitForRoom(size int) bool {
	if size <= largeRequest {
		return true
	}
	for c.large.Load() > 0 && c.large.Load()+int64(size) > largeWaiting {
		select {
		case <-c.room:
		case <-c.stop:
			return false
		case <-c.quit:
			return false
		}
	}
	c.large.Add(int64(size))
	return true
}

// leaveRoom is called by the owner when it has applied a request.
func (c *conn) leaveRoom(size int) {
	if size <= largeRequest {
		return
	}
	c.large.Add(-int64(size))
	select {
	case c.room <- struct{}{}:
	default:
	}
}
