package zkserver

import (
	"sync/atomic"
	"time"

	"holdfast/zkserver/internal/store"
)

// counters has the values that Stats shows. The owner publishes its own values here, so that Stats
// does not wait for the owner.
type counters struct {
	zxid, sessions, znodes, ephemerals, watches, dataBytes atomic.Int64 // written by the owner
	received, notifications, bytesReceived                 atomic.Int64 // written by the owner
	created, expired, died, loginsRefused, waited, turns   atomic.Int64 // written by the owner

	connections, mostConnections atomic.Int64

	outstanding     atomic.Int64
	answered        atomic.Int64 // written by the goroutine that releases a batch
	bytesSent       atomic.Int64
	bytesWaiting    atomic.Int64
	commit, latency histogram // commit: written by the committer; latency: by the goroutine that releases a batch

	committed, journal, snapshot, snapshotFailures atomic.Int64 // written by the committer

	sinceReset latencies // like latency, for the four-letter words
	refused    [len(allLimits)]refusals
}

func (n *counters) of(l Limit) *refusals {
	for i := range allLimits {
		if allLimits[i] == l {
			return &n.refused[i]
		}
	}
	panic("zkserver: limit " + string(l) + " is not among allLimits")
}

// publish copies the owner's values to the counters. The owner calls it after a change.
func (s *Server) publish() {
	o, n := &s.owner, &s.counters
	n.zxid.Store(o.zxid)
	n.sessions.Store(int64(len(o.sessions)))
	n.znodes.Store(int64(o.tree.Len()))
	n.ephemerals.Store(int64(o.tree.EphemeralCount()))
	n.watches.Store(int64(o.tree.WatchCount()))
	n.dataBytes.Store(o.tree.DataBytes())
	n.received.Store(o.received)
	n.notifications.Store(o.notifications)
	n.bytesReceived.Store(o.bytesReceived)
	waited, turns := o.turns.Waited()
	n.waited.Store(waited)
	n.turns.Store(turns)
}

// committed records a commit and the number of requests that waited for it. The caller holds the
// token of s.idle.
func (s *Server) committed(took time.Duration, requests int) {
	s.counters.commit.observe(took)
	s.counters.committed.Add(int64(requests))
	s.measureStore()
}

// measureStore records the store's size and its trouble. Nobody may commit meanwhile.
func (s *Server) measureStore() {
	if j, ok := s.store.(*store.Journal); ok {
		journals, snapshot := j.Sizes()
		s.counters.journal.Store(journals)
		s.counters.snapshot.Store(snapshot)
		s.noteTrouble(j.Trouble())
	}
}

// noteTrouble records and logs why the store could not make its next file, such as a snapshot. err is nil if it
// could.
func (s *Server) noteTrouble(failures int64, err error) {
	switch again := s.counters.snapshotFailures.Swap(failures) < failures; {
	case again:
		s.trouble.Store(&err)
		s.cfg.Logger.Warn("zkserver: the store cannot make its next file, and tries again", "err", err)
	case err == nil && s.trouble.Swap(nil) != nil:
		s.cfg.Logger.Info("zkserver: the store has made the file that it could not make")
	}
}

// latencies summarize durations. One goroutine at a time writes them and any goroutine reads them.
// A reader may see a duration in some of the fields only.
type latencies struct {
	count, sum, least, most, last atomic.Int64 // all but count in nanoseconds
}

func (l *latencies) observe(d time.Duration) {
	n := int64(d)
	if count := l.count.Add(1); count == 1 || n < l.least.Load() {
		l.least.Store(n)
	}
	if n > l.most.Load() {
		l.most.Store(n)
	}
	l.sum.Add(n)
	l.last.Store(n)
}

// milliseconds returns the least, the mean and the most.
func (l *latencies) milliseconds() (least int64, mean float64, most int64) {
	const ms = int64(time.Millisecond)
	if n := l.count.Load(); n > 0 {
		mean = float64(l.sum.Load()) / float64(n) / float64(ms)
	}
	return l.least.Load() / ms, mean, (l.most.Load() + ms - 1) / ms // rounded up, so that the mean is never above the most
}

func (l *latencies) reset() {
	for _, v := range [...]*atomic.Int64{&l.count, &l.sum, &l.least, &l.most, &l.last} {
		v.Store(0)
	}
}

// arrival is a request that is answered with a batch.
type arrival struct {
	conn *conn
	at   time.Duration // as in request
}

// observe records the latency of released answers. Batches are released one after the other, so
// there is one caller at a time.
func (s *Server) observe(arrivals []arrival) {
	if len(arrivals) == 0 {
		return
	}
	now, n := 1+time.Since(s.opened), &s.counters
	for _, a := range arrivals {
		took := now - a.at
		n.latency.observe(took)
		n.sinceReset.observe(took)
		a.conn.latency.observe(took)
	}
	n.outstanding.Add(-int64(len(arrivals)))
	n.answered.Add(int64(len(arrivals)))
}
