package zkserver

import (
	"fmt"
	"runtime"
	"time"

	"holdfast/zkserver/internal/sched"
	"holdfast/zkserver/internal/store"
	"holdfast/zkserver/internal/tree"
)

// A batch holds the changes of one commit, and the answers that wait for it. An answer may
// reflect any change up to its own batch, so it waits for that batch's commit. The server commits
// and releases batches one after the other, so answers never overtake each other.
type batch struct {
	changes  store.Batch
	conns    []*conn   // connections with staged bytes
	released []func()  // called when the batch is released
	answers  []answers // filled when the batch is handed over
	arrivals []arrival // of the answered requests
	bytes    int       // staged
	lasting  bool      // it must survive a power failure, see Config.OneMachine
	backlog  int       // work of the requests that had waited for their turn
}

// answers are bytes for one connection.
type answers struct {
	conn   *conn
	bytes  []byte
	count  int
	finish bool
}

// answer reports whether a client waits for these bytes: they are more than notifications.
func (a *answers) answer() bool { return a.count > 0 || a.finish }

func (b *batch) empty() bool {
	return b.changes.Empty() && len(b.conns) == 0 && len(b.released) == 0
}

// nothingAtHand reports whether the owner has nothing to commit.
func (s *Server) nothingAtHand() bool {
	return s.owner.batch.empty() && !s.owner.tree.Changed()
}

// nextTxn begins a write and gives it a zxid. A failed write has a zxid too, and clients see it.
// It must not be given again after a crash, although nothing was written for it. So the server
// reserves zxids in blocks: the store knows a ceiling, and a restart continues above it.
func (s *Server) nextTxn(session int64) tree.Txn {
	o := &s.owner
	o.zxid++
	if o.zxid > o.ceiling {
		s.reserveZxids()
	}
	return tree.Txn{Zxid: o.zxid, Time: s.wallClock(), Session: session}
}

// wallClock returns the present time by the server's clock, in milliseconds.
func (s *Server) wallClock() int64 { return s.owner.now.UnixMilli() + s.moved.Load() }

// zxidAt returns the zxid that belongs to a time: 2^32 for each second since 2020. A server begins at the zxid of
// the time, and gives out far fewer in a second. So at any time, it is above every zxid that any server has given out
// before, on this store, on a copy of it, or on another one in its place; clocks permitting, see owner.ahead.
// zxidAt returns 0 for a time that no clock of our days says.
func zxidAt(t time.Time) int64 {
	since := t.Sub(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	if since < 0 || since > 60*365*24*time.Hour {
		return 0
	}
	return int64(since/time.Second)<<32 + int64(since%time.Second)<<32/int64(time.Second)
}

// reserveZxids raises the ceiling.
func (s *Server) reserveZxids() {
	const block = 1 << 16
	o := &s.owner
	o.ceiling = o.zxid + block
	o.batch.changes.PutCeiling(o.ceiling)
	o.batch.lasting = true // tokens must never be given twice
}

// handOver commits and releases the batch, or gives it to the committer. The owner holds the token
// of s.idle, so every earlier batch has been released. handOver reports whether the owner still
// holds it.
func (s *Server) handOver() (free bool) {
	b := s.takeBatch()
	switch {
	case b == nil:
		return true
	case b.changes.Empty(), b.changes.SyncLater && !s.store.Waits():
		// A read, or a write that is not synced, takes less time than a switch of goroutines.
		return s.commitNow(b, nil)
	}
	s.commits <- b
	return false
}

// takeBatch seals the batch and begins a new one. It returns nil if the batch is empty.
func (s *Server) takeBatch() *batch {
	b := s.owner.batch
	if s.nothingAtHand() {
		b.backlog = 0
		return nil
	}
	s.owner.batch = new(batch)
	s.seal(b)
	if !b.changes.Empty() {
		s.committingSince.Store(1 + int64(time.Since(s.opened))) // never 0
	}
	return b
}

// seal encodes the changes and takes the staged answers.
func (s *Server) seal(b *batch) {
	lasting := s.owner.tree.TakeChanges(func(path string, p tree.Part, record []byte) {
		b.changes.SetNode(path, byte(p), record)
	})
	b.changes.SyncLater = !lasting && !b.lasting && s.owner.others == 0 && s.oneMachine.Load()
	for _, c := range b.conns {
		o := &c.owned
		s.counters.bytesWaiting.Add(int64(len(o.staged)))
		c.unread.Add(int64(len(o.staged)))
		b.answers = append(b.answers, answers{c, o.staged, o.answers, o.finish})
		o.staged, o.weighed, o.answers, o.inBatch = nil, 0, 0, false
	}
}

// release sends everything in b. If the caller is the reader of a connection, own is that
// connection. Otherwise own is nil.
func (s *Server) release(b *batch, own *conn) {
	s.observe(b.arrivals)
	deliver := func(a answers) {
		if !a.conn.send(a.bytes, a.count, a.finish) {
			recycleStage(a.bytes)
		}
	}
	for _, a := range b.answers {
		if a.answer() && (a.conn != own || !own.sendNow(a)) {
			deliver(a)
			a.conn.signal()
		}
	}
	if len(b.answers) > tellAtOnce {
		runtime.Gosched() // let the woken goroutines run
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

// commit is the committer's goroutine. After an error it sends nothing more: nobody knows what is
// on disk until the next start.
func (s *Server) commit() {
	for b := range s.commits {
		select {
		case <-s.quit:
			return
		default:
		}
		if !s.commitNow(b, nil) {
			return
		}
		s.idle <- struct{}{}
	}
}

// commitNow commits a batch and releases it, see release. If the commit fails, commitNow stops the
// server and returns false. The caller holds the token of s.idle.
func (s *Server) commitNow(b *batch, own *conn) bool {
	if b.changes.Empty() {
		s.release(b, own) // all data that the reads returned is on disk
		return true
	}
	began := time.Now()
	if err := s.store.Commit(&b.changes); err != nil {
		err = fmt.Errorf("zkserver: write to the store: %w; the server has stopped and acknowledges nothing more; "+
			"check the disk, then start the server again", err)
		s.cfg.Logger.Error(err.Error())
		s.stopNow(err)
		return false
	}
	s.committed(time.Since(began), len(b.arrivals))
	if b.backlog >= sched.Share {
		s.restUntil = restAfter(began)
	}
	s.release(b, own)
	s.committingSince.Store(0)
	return true
}

// maxRest bounds how long waiting requests leave the server and its disk to other clients.
const maxRest = 100 * time.Millisecond

// restAfter returns the time until which waiting requests rest after a batch with at least a share of
// their work. Small requests of other clients have server and disk for twice as long as that batch
// took.
func restAfter(began time.Time) time.Time {
	now := time.Now()
	return now.Add(min(2*now.Sub(began), maxRest))
}
