package zkserver

import (
	"fmt"
	"runtime"
	"time"

	"holdfast/zkserver/internal/store"
)

// A batch is what one commit makes durable, and what may be said once it is. Its
// answers may reflect any change up to its own, so they wait for its commit; batches
// are committed and released one after the other, so they never overtake.
type batch struct {
	changes  store.Batch
	conns    []*conn   // with something staged
	released []func()  // called when the batch is released
	answers  []answers // filled when the batch is handed over
	arrivals []arrival // of the requests that are answered
	bytes    int       // staged
	large    int       // bytes of large requests, see fair.go
	lasting  bool      // it must survive a power failure, see Config.OneMachine
	backlog  int       // work of requests that had to wait
}

// answers are bytes for one connection.
type answers struct {
	conn   *conn
	bytes  []byte
	count  int
	finish bool
}

// answer says whether somebody waits for it: it is not of notifications only.
func (a *answers) answer() bool { return a.count > 0 || a.finish }

func (b *batch) empty() bool {
	return b.changes.Empty() && len(b.conns) == 0 && len(b.released) == 0
}

// handOver gives the batch to the committer and begins a new one. It is called by the
// owner with the token of s.idle in its hand: everything before has been released.
func (s *Server) handOver() {
	b := s.owner.batch
	s.owner.batch, s.owner.ended = new(batch), 0
	s.owner.shares++
	if s.owner.stopping { // the clock may have ended sessions since
		b.changes.PutCeiling(s.owner.zxid)
	}
	s.seal(b)
	if b.changes.Empty() {
		// Reads only, and all that they saw is on disk: no need to change goroutines.
		s.release(b)
		s.idle <- struct{}{}
		return
	}
	s.committingSince.Store(1 + int64(time.Since(s.opened))) // never 0
	if b.changes.SyncLater {
		// It is written and not synced, which is faster than a change of goroutines.
		if s.commitNow(b) {
			s.idle <- struct{}{}
		}
		return
	}
	s.commits <- b
}

// seal encodes what changed, and takes what is staged.
func (s *Server) seal(b *batch) {
	record := s.owner.record
	lasting := s.owner.tree.TakeChanges(func(path string) {
		var exists bool
		if record, exists = s.owner.tree.AppendNode(record[:0], path); exists {
			b.changes.PutNode(path, record)
		} else {
			b.changes.DeleteNode(path)
		}
	})
	s.owner.record = record[:0] // as large as the largest node
	b.changes.SyncLater = !lasting && !b.lasting && s.owner.others == 0 && s.oneMachine.Load()
	for _, c := range b.conns {
		o := &c.owned
		s.counters.bytesWaiting.Add(int64(len(o.staged)))
		c.unread.Add(int64(len(o.staged)))
		b.answers = append(b.answers, answers{c, o.staged, o.answers, o.finish})
		o.staged, o.weighed, o.answers, o.inBatch = nil, 0, 0, false
	}
}

func (s *Server) release(b *batch) {
	s.observe(b.arrivals)
	deliver := func(a answers) {
		if !a.conn.send(a.bytes, a.count, a.finish) {
			recycleStage(a.bytes)
		}
	}
	for _, a := range b.answers {
		if a.answer() {
			deliver(a)
			a.conn.signal()
		}
	}
	if len(b.answers) > tellAtOnce {
		runtime.Gosched() // to those who have just been woken
	}
	var told []*conn
	for _, a := range b.answers {
		if a.answer() {
			continue
		}
		deliver(a)
		if !a.conn.beingTold.Swap(true) {
			told = append(told, a.conn)
		}
	}
	if len(told) > tellAtOnce {
		s.teller.tell(told)
		told = nil
	}
	for _, c := range told {
		c.beingTold.Store(false)
		c.signal()
	}
	for _, f := range b.released {
		f()
	}
}

// commit is the committer's goroutine. After an error it says nothing more to anyone:
// what is on disk is unknown until the next start.
func (s *Server) commit() {
	for b := range s.commits {
		select {
		case <-s.quit:
			return
		default:
		}
		if !s.commitNow(b) {
			return
		}
		s.idle <- struct{}{}
	}
}

// commitNow commits a batch and releases it. If that fails, it stops the server and returns false.
// The caller is the owner or the committer, and has the token of s.idle.
func (s *Server) commitNow(b *batch) bool {
	began := time.Now()
	if err := s.store.Commit(&b.changes); err != nil {
		err = fmt.Errorf("zkserver: write to the store: %w; the server has stopped, nothing more was acknowledged; "+
			"see to the disk and start it again", err)
		s.cfg.Logger.Error(err.Error())
		s.stopNow(err)
		return false
	}
	s.committed(time.Since(began), len(b.arrivals))
	if b.large > 0 || b.backlog >= roundWork {
		s.restUntil = restAfter(began)
	}
	s.release(b)
	s.committingSince.Store(0)
	return true
}
