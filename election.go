package holdfast

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// An Election makes one of many candidates the leader, and tells everybody which one. Candidates wait in a queue, as
// for a Mutex. The first leads until it resigns, by Unlock, or loses the lock. Each has a value for others to read,
// for example an address. In the default layout the nodes are those of Curator's LeaderSelector; layout.LeaderLatch
// and layout.Kazoo are for candidates of those.
type Election struct {
	lock lock
}

// A Leader is one term of office. The zero Leader, whose Term is 0, says that nobody leads.
type Leader struct {
	// Value is the leader's present value. A request to resign may replace it in the node (see Revoke)
	// until the leader restores it. Meanwhile it is nil, except that Leaders keeps what it has yielded before.
	Value []byte
	// Term grows with every leader: it is the fencing token of the leader's Hold. It is 0 if nobody leads.
	Term    int64
	Session int64     // the session that leads
	Path    string    // of the leader's node
	Since   time.Time // when it became a candidate, by the server's clock
}

// NewElection names the election at path. See [NewMutex].
func NewElection(c *zk.Client, path string, opts ...Option) *Election {
	o := newOptions("an Election", opts)
	l := newLock(c, path, queue.Lock, o)
	l.Queue.Process = o.note.Process
	return &Election{l}
}

// Path is the path of the lock.
func (e *Election) Path() string { return e.lock.Path }

// Lead campaigns with value, calls f while the caller leads, and resigns when f has returned or panics. If the term
// is lost, Lead waits until f has returned, and campaigns again while ctx lives. So f may run many times, each time
// in a new term, and never twice at a time. If one term after the other is lost within ten seconds, Lead pauses
// before the next, up to a second.
//
// The context of f ends when the term is lost, with a cause that is ErrLost, or when ctx ends. Then f should return
// at once. The context has the values of ctx. FromContext returns the term's Hold, for Token and Proclaim.
//
// If f returns before its term is lost, or after the end of ctx, Lead returns the error of f. It is joined with an
// error that is ErrLost if the term did not last until Lead had resigned. If f returns an error after a loss or a
// handover (see WithPreference), Lead drops it: most of these errors are consequences. To end Lead nevertheless, f
// cancels ctx. Lead also returns the errors of Campaign, among them the cause of ctx.
func (e *Election) Lead(ctx context.Context, value []byte, f func(context.Context) error) error {
	for turn := queue.Pace(1); ; {
		h, err := e.campaign(ctx, "lead", value)
		if err != nil {
			return err
		}
		lost, began := false, time.Now()
		err = h.during(ctx, func(ctx context.Context) error {
			ctx, handed := e.lock.handover(ctx, h)
			err := f(ctx)
			lost = handed() || errors.Is(h.over(), ErrLost) // or handed over
			return err
		})
		if !lost || ctx.Err() != nil {
			return err
		}
		turn = turn.NextAfter(ctx, began)
	}
}

// Campaign waits until the caller is the leader, and returns the Hold of the term. The term lasts until Unlock, which
// resigns, or until it is lost. See [Mutex.Lock] for ctx and the end of the session. A leader that has lost its term
// calls Campaign again; Lead does so by itself. The error is ErrDeadlock if ctx descends from the caller's own term.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Hold, error) {
	return e.campaign(ctx, "campaign", value)
}

// TryCampaign is Campaign without a wait for the candidates ahead: if there is one, the error is ErrLocked. See
// [Locker].
func (e *Election) TryCampaign(ctx context.Context, value []byte) (*Hold, error) {
	q := e.candidate(value)
	return q.try(ctx, "try campaign", names.Mutex)
}

func (e *Election) campaign(ctx context.Context, op string, value []byte) (*Hold, error) {
	q := e.candidate(value)
	return q.wait(ctx, op, names.Mutex)
}

// candidate returns the lock of a candidate with value.
func (e *Election) candidate(value []byte) lock {
	q := e.lock
	q.term = true
	if q.Grammar.Mutex.Unique() {
		q.value = append([]byte{}, value...)
	} else {
		q.note = queue.Note{Value: value, Process: q.note.Process}
	}
	return q
}

// Proclaim changes the leader's value without a new term. h is from Campaign. If it is not a Hold of this election,
// the error is zk.ErrBadArguments. The error is ErrLost or ErrNotHeld if its term is over; then nothing was changed.
// Proclaim takes two round trips. When ctx ends, the value may have changed.
func (e *Election) Proclaim(ctx context.Context, h *Hold, value []byte) error {
	err := e.lock.valid()
	if err == nil {
		err = h.meets(demand{by: "Proclaim", one: true, term: &e.lock})
	}
	if err == nil {
		t := h.tenures[0]
		err = t.Replace(ctx, h.over, func(ops ...zk.Op) error { _, err := h.commit(ctx, ops); return err },
			func(present []byte) ([]byte, error) { return lockOf(t).withCandidate(present, value) })
	}
	if err != nil {
		return &Error{Op: "proclaim", Path: e.lock.Path, Err: err}
	}
	return nil
}

// withCandidate puts a candidate's value into the data of its node.
func (l *lock) withCandidate(data, value []byte) ([]byte, error) {
	if l.Grammar.Mutex.Unique() {
		err := queue.ValidValue(value)
		if to, _ := queue.Handover(data); to != "" { // the request stays
			return queue.WithHandover(value, to), err
		}
		return append([]byte{}, value...), err
	}
	n := queue.ReadNote(data)
	n.Value = value
	return n.Encode()
}

// Leader returns the leader at some moment after the call. The error is ErrNoLeader if there is none. Each call costs
// the ensemble a transaction.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	for l, err := range e.Leaders(ctx) {
		var said *Error
		if err == nil && l.Term == 0 {
			err = &Error{Path: e.lock.Path, Err: ErrNoLeader}
		}
		if errors.As(err, &said) {
			said.Op = "leader"
		}
		return l, err
	}
	panic("holdfast: no first leader")
}

// Leaders yields the present leader, and then every change of the leader or of its value, until ctx ends or the
// caller breaks off. If nobody leads, it yields the zero Leader, and goes on. It may combine changes that follow each
// other closely, but never misses the last one. Terms never go back, except for the 0 between two leaders. When a
// session ends, Leaders continues in the next one. An error is the last element; if ctx ends, it is the cause. It
// costs the ensemble one transaction for each session, and one watch on one node, however many candidates there are.
func (e *Election) Leaders(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		f := follower{election: e, yield: yield}
		for {
			err := f.follow(ctx)
			if err == nil { // it is not wanted any more
				return
			}
			if ctx.Err() != nil || !errors.Is(err, zk.ErrSessionExpired) {
				yield(Leader{}, f.fail(err))
				return
			}
		}
	}
}

// A follower follows an election, through one session after the other.
type follower struct {
	election *Election
	yield    func(Leader, error) bool
	told     bool   // a leader, or that there is none, was yielded
	last     Leader // the latest that was yielded; zero if there was no leader
}

func (f *follower) fail(err error) error {
	return &Error{Op: "leaders", Path: f.election.lock.Path, Err: err}
}

// follow follows the election in one session. It returns nil when the caller has broken off.
func (f *follower) follow(ctx context.Context) error {
	q := &f.election.lock
	if err := q.valid(); err != nil {
		return err
	}
	s, err := q.Client.Session(ctx)
	if err != nil {
		return err
	}
	// The server that we read from may be behind the one that elected the leader, or behind the one that
	// the previous session read from.
	if err := queue.Barrier(ctx, s, q.Path); err != nil {
		return err
	}
	for {
		var l Leader
		var watch *zk.Watch
		if err == nil {
			err = zk.Retry(ctx, func() (err error) {
				l, watch, err = f.look(ctx, s)
				return err
			})
		}
		if err != nil {
			return err
		}
		if !f.tellOr(l, watch.Stop) {
			return nil
		}
		again := time.NewTimer(queue.LookAgain())
		select {
		case ev := <-watch.C:
			err = ev.Err
		case <-again.C: // the event may have been lost
			watch.Stop()
		case <-ctx.Done():
			again.Stop()
			watch.Stop()
			return context.Cause(ctx)
		}
		again.Stop()
	}
}

// tellOr is tell, and calls stop if the caller breaks off or panics.
func (f *follower) tellOr(l Leader, stop func()) (goOn bool) {
	defer func() {
		if !goOn {
			stop()
		}
	}()
	return f.tell(l)
}

// tell yields l if it differs from the latest one.
func (f *follower) tell(l Leader) (goOn bool) {
	if f.told && l.Term == f.last.Term && bytes.Equal(l.Value, f.last.Value) {
		return true
	}
	f.told, f.last = true, l
	return f.yield(l, nil)
}

// look reads the present leader, with a watch on its node. If there is none, the Leader is zero and the
// watch fires when there may be one.
func (f *follower) look(ctx context.Context, s *zk.Session) (Leader, *zk.Watch, error) {
	q := &f.election.lock
	first := f.last.Path // leads as long as it is there
	for {
		if first != "" {
			data, stat, watch, err := s.GetW(ctx, first)
			switch {
			case err == nil && (first != f.last.Path || stat.Czxid == f.last.Term):
				return f.leaderOf(first, data, stat), watch, nil
			case err == nil:
				watch.Stop() // another of the same name
			case errors.Is(err, zk.ErrNoAuth) && first == f.last.Path:
				if watch, err := f.stillFirst(ctx, s); watch != nil || err != nil {
					return f.last, watch, err
				}
			case !errors.Is(err, zk.ErrNoNode):
				return Leader{}, nil, err
			}
		}
		listed, _, err := s.Children(ctx, q.Path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return Leader{}, nil, err
		}
		if in := q.Grammar.InQueue(listed); len(in) > 0 {
			f.last.Path, first = "", q.Path+"/"+in[0].Name // somebody else, whatever the name
			continue
		}
		// A watch on the queue fires for every candidate. So it is used only while there is none.
		listed, _, watch, err := s.ChildrenW(ctx, q.Path)
		if errors.Is(err, zk.ErrNoNode) {
			var ok bool
			if _, ok, watch, err = s.ExistsW(ctx, q.Path); ok {
				watch.Stop()
				continue
			}
		}
		if err == nil && len(q.Grammar.InQueue(listed)) > 0 {
			watch.Stop()
			continue
		}
		return Leader{}, watch, err
	}
}

// stillFirst returns a watch on the queue if the latest leader, whose node we may not read any more, is still the first in
// it. Otherwise it returns nil.
func (f *follower) stillFirst(ctx context.Context, s *zk.Session) (*zk.Watch, error) {
	q := &f.election.lock
	listed, _, watch, err := s.ChildrenW(ctx, q.Path)
	if in := q.Grammar.InQueue(listed); err == nil && len(in) > 0 && q.Path+"/"+in[0].Name == f.last.Path {
		return watch, nil
	}
	if watch != nil {
		watch.Stop()
	}
	if errors.Is(err, zk.ErrNoNode) {
		err = nil
	}
	return nil, err
}

func (f *follower) leaderOf(path string, data []byte, stat zk.Stat) Leader {
	_, data = queue.Handover(data)
	switch {
	case queue.IsRequest(data) && stat.Czxid == f.last.Term:
		data = f.last.Value // until it is restored
	case queue.IsRequest(data):
		data = nil
	case !f.election.lock.Grammar.Mutex.Unique():
		data = queue.ReadNote(data).Value
	}
	return Leader{Value: data, Term: stat.Czxid, Session: stat.EphemeralOwner, Path: path, Since: time.UnixMilli(stat.Ctime)}
}
