package holdfast

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"holdfast/zk"
)

// An Election makes one of many candidates the leader, and tells everybody who that is.
// Candidates stand in a queue, as for a Mutex; the first leads until it resigns, by
// Unlock, or is lost. Each has a value for others to read, an address say. It has no
// state of its own and is safe for concurrent use.
//
// In the default layout the nodes are those of Curator's LeaderSelector; LayoutLeaderLatch
// and LayoutKazoo are for candidates of those.
type Election struct {
	queue queue
}

// A Leader is one term of office.
type Leader struct {
	// Value is what it has to say, at present. A request to let go may replace it in the
	// node (see Revoke) until the leader restores it. An observer keeps the value meanwhile
	// if it has seen that before; else it is nil.
	Value []byte
	// Term grows with every leader: it is the fencing token of the leader's Hold.
	Term    int64
	Session int64     // the session that leads
	Path    string    // of the leader's node
	Since   time.Time // when it became a candidate, by the server's clock
}

// NewElection names the election at path. See [NewMutex]. WithValue, WithOwner and
// WithReason have no effect: a candidate's value is given to Campaign.
func NewElection(c *zk.Client, path string, opts ...Option) *Election {
	return &Election{queue{client: c, path: path, kind: kindQueue, options: newOptions(opts)}}
}

// Campaign waits until we are the leader, and returns the Hold of the office: it lasts
// until Unlock, which resigns, or until it is lost. If the session ends while it waits,
// it queues again in the next one for as long as ctx lives. Who was the leader and lost
// that calls Campaign again. ErrDeadlock: ctx descends from our own term of office.
func (e *Election) Campaign(ctx context.Context, value []byte) (*Hold, error) {
	q := e.queue
	q.handoffs = 0 // every candidate has a node and a value of its own
	if q.grammar.mutex.unique() {
		q.value = append([]byte{}, value...)
	} else {
		q.note = note{Value: value}
	}
	return q.wait(ctx, "campaign", sideMutex)
}

// Proclaim changes the leader's value without a new term. h is from Campaign; ErrLost and
// ErrNotHeld say that its term is over, and that nothing was changed. It takes two round
// trips. When ctx ends, the value may have changed all the same.
func (e *Election) Proclaim(ctx context.Context, h *Hold, value []byte) error {
	t := h.tenures[0]
	if t.queue.client != e.queue.client || t.queue.path != e.queue.path {
		return h.fail("proclaim", fmt.Errorf("%w: the Hold is not of the election %s", ErrNotHeld, e.queue.path))
	}
	err := t.replace(ctx, h, func(present []byte) ([]byte, error) { return t.queue.withCandidate(present, value) })
	if err != nil {
		return h.fail("proclaim", err)
	}
	return nil
}

// withCandidate puts a candidate's value into the data of its node.
func (q *queue) withCandidate(data, value []byte) ([]byte, error) {
	if q.grammar.mutex.unique() {
		return append([]byte{}, value...), validValue(value)
	}
	n := readNote(data)
	n.Value = value
	return n.encode()
}

// Leader is the present leader, at some moment after the call. ErrNoLeader: there is
// none.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	for l, err := range e.Leaders(ctx) {
		var said *Error
		if errors.As(err, &said) {
			said.Op = "leader"
		}
		return l, err
	}
	panic("holdfast: no first leader")
}

// Leaders yields the present leader, and from then on every change of the leader or of its
// value, until ctx ends or the caller breaks off. While there is no leader, it yields
// ErrNoLeader and goes on. Changes that follow each other closely may be seen as one, but
// the last is never missed, and terms never go back. It lives through ends of the session.
// Any other error is the last thing that it yields.
//
// It costs the ensemble one watch on one node, however many candidates there are.
func (e *Election) Leaders(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		o := observer{election: e, yield: yield}
		for {
			err := o.follow(ctx)
			if err == nil { // it is not wanted any more
				return
			}
			if ctx.Err() != nil || !errors.Is(err, zk.ErrSessionExpired) {
				yield(Leader{}, o.fail(err))
				return
			}
		}
	}
}

// An observer follows an election, through one session after the other.
type observer struct {
	election *Election
	yield    func(Leader, error) bool
	told     bool   // something was yielded
	last     Leader // which is this; zero if there was no leader
}

func (o *observer) fail(err error) error {
	return &Error{Op: "leaders", Path: o.election.queue.path, Err: err}
}

// follow does so in one session. It returns nil when the caller has broken off.
func (o *observer) follow(ctx context.Context) error {
	q := &o.election.queue
	if err := validatePath(q.path); err != nil {
		return err
	}
	s, err := q.client.Session(ctx)
	if err != nil {
		return err
	}
	// The server that we read from may be behind the one that elected the leader, or the
	// one that the session before has read from.
	if err := retry(ctx, func() error { return s.Sync(ctx, q.path) }); err != nil {
		return err
	}
	for {
		var l Leader
		var watch *zk.Watch
		if err == nil {
			err = retry(ctx, func() (err error) {
				l, watch, err = o.look(ctx, s)
				return err
			})
		}
		if err != nil {
			return err
		}
		if !o.tell(l) {
			watch.Stop()
			return nil
		}
		select {
		case ev := <-watch.C:
			err = ev.Err
		case <-ctx.Done():
			watch.Stop()
			return context.Cause(ctx)
		}
	}
}

// tell yields what is news.
func (o *observer) tell(l Leader) (goOn bool) {
	if o.told && l.Term == o.last.Term && bytes.Equal(l.Value, o.last.Value) {
		return true
	}
	o.told, o.last = true, l
	if l.Term == 0 {
		return o.yield(Leader{}, o.fail(ErrNoLeader))
	}
	return o.yield(l, nil)
}

// look reads the present leader, with a watch on its node. If there is none, the Leader is
// zero and the watch tells when there may be one.
func (o *observer) look(ctx context.Context, s *zk.Session) (Leader, *zk.Watch, error) {
	q := &o.election.queue
	first := o.last.Path // leads as long as it is there
	for {
		if first != "" {
			data, stat, watch, err := s.GetW(ctx, first)
			switch {
			case err == nil && (first != o.last.Path || stat.Czxid == o.last.Term):
				return o.leaderOf(first, data, stat), watch, nil
			case err == nil:
				watch.Stop() // another of the same name
			case !errors.Is(err, zk.ErrNoNode):
				return Leader{}, nil, err
			}
		}
		names, _, err := s.Children(ctx, q.path)
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			return Leader{}, nil, err
		}
		if in := q.grammar.inQueue(names); len(in) > 0 {
			o.last.Path, first = "", q.path+"/"+in[0].name // somebody else, whatever the name
			continue
		}
		// A watch on the queue is told of every candidate: only while there is none.
		names, _, watch, err := s.ChildrenW(ctx, q.path)
		if errors.Is(err, zk.ErrNoNode) {
			var ok bool
			if _, ok, watch, err = s.ExistsW(ctx, q.path); ok {
				watch.Stop()
				continue
			}
		}
		if err == nil && len(q.grammar.inQueue(names)) > 0 {
			watch.Stop()
			continue
		}
		return Leader{}, watch, err
	}
}

func (o *observer) leaderOf(path string, data []byte, stat zk.Stat) Leader {
	switch {
	case isRequest(data) && stat.Czxid == o.last.Term:
		data = o.last.Value // until it is restored
	case isRequest(data):
		data = nil
	case !o.election.queue.grammar.mutex.unique():
		data = readNote(data).Value
	}
	return Leader{Value: data, Term: stat.Czxid, Session: stat.EphemeralOwner, Path: path, Since: time.UnixMilli(stat.Ctime)}
}
