package chaos

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"holdfast"
)

// A Log records a history. Its times are all different and in the order in which they were
// taken, whatever the clock says. So two events that follow each other in this process never
// seem simultaneous. It is safe for concurrent use.
type Log struct {
	clock func() time.Duration
	sink  func(Op)

	mu    sync.Mutex // guards the fields below
	last  time.Duration
	claim int
	ops   []Op
}

// NewLog returns an empty Log. clock returns the time since the start of the history; the
// processes of one history must share that clock. Their claims must have different numbers: the
// first one of this Log is firstClaim, which is above 0. sink, if not nil, gets every operation
// when it is added, one at a time. It also gets every attempt when it begins, with unknown
// outcome and no return, in case the process is killed. Of two records of one attempt, the
// later counts.
func NewLog(clock func() time.Duration, firstClaim int, sink func(Op)) *Log {
	return &Log{clock: clock, claim: firstClaim, sink: sink}
}

// Now returns the time for an operation.
func (l *Log) Now() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now()
}

func (l *Log) now() time.Duration {
	l.last = max(l.last+1, l.clock())
	return l.last
}

// Add records an operation.
func (l *Log) Add(o Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(o)
}

func (l *Log) add(o Op) {
	l.ops = append(l.ops, o)
	if l.sink != nil {
		l.sink(o)
	}
}

// Ops returns the history so far, in the order of recording. An operation that returns is
// recorded at its return.
func (l *Log) Ops() []Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.ops)
}

// An Attempt describes one call to Acquire.
type Attempt struct {
	Client int
	Try    bool
	// Locks are the locks to acquire: one, or the parts of a MultiLock. Of each, Lock, Type,
	// Shared, Permits, Limit and Inside count.
	Locks []Op
	// Tree: the locks are those of one path of a Tree, see TreeLocks.
	Tree bool
	// Session returns the client's current session. If it has changed since the attempt began,
	// it is unknown when the node of a failed attempt is removed.
	Session func() int64
}

// A Claim is a Hold whose ends are recorded.
type Claim struct {
	*holdfast.Hold
	log     *Log
	ops     []Op
	stop    func() bool
	session func() int64 // Attempt.Session

	mu   sync.Mutex
	over bool
}

// Acquire calls lock and records it. From then on it also records the end of the Hold. Release
// the Hold with the Unlock of the Claim.
func (l *Log) Acquire(ctx context.Context, a Attempt, lock func(context.Context) (*holdfast.Hold, error)) (*Claim, error) {
	c := &Claim{log: l, ops: slices.Clone(a.Locks), session: a.Session}
	l.mu.Lock()
	call := l.now()
	for i := range c.ops {
		o := &c.ops[i]
		o.Client, o.Call, o.Kind = a.Client, call, Acquire
		o.Claim = l.claim
		l.claim++
		if a.Try {
			o.Kind = Try
		}
		if l.sink != nil {
			begun := *o
			begun.Return, begun.Outcome = Never, Unknown
			l.sink(begun)
		}
	}
	l.mu.Unlock()
	var session int64
	if a.Session != nil {
		session = a.Session()
	}
	h, err := lock(ctx)
	sure := ctx.Err() == nil && (a.Session == nil || a.Session() == session)
	l.mu.Lock()
	defer l.mu.Unlock()
	ret := l.now()
	for i := range c.ops {
		o := &c.ops[i]
		o.Return, o.Outcome = ret, OK
		switch {
		case err == nil:
			o.Token, o.Session = h.Token(), h.SessionID()
			if len(c.ops) > 1 {
				o.Token = tokenOf(h, o.Lock)
			}
			if a.Tree {
				o.Tree = h.Token()
			}
			o.Strayed = a.Session != nil && h.SessionID() != session
			if i == 0 {
				o.Node, o.Slots = h.Path(), h.Slots()
				o.Seq, o.HasSeq = sequence(o.Node)
			}
		case errors.Is(err, holdfast.ErrLocked) && sure && len(c.ops) == 1: // of several, it was one that was locked
			o.Outcome, o.Error = Failed, err.Error()
		default:
			// The node may outlive the call: after a context has ended, the clean-up goes on in
			// the background.
			o.Outcome, o.Error = Unknown, err.Error()
		}
		l.add(*o)
	}
	if err != nil {
		return nil, err
	}
	c.follow(h)
	return c, nil
}

// Begin records that o.Client was given h by a call that waited for the lock itself, as those of a Once and of
// Shards do before they call a function. Of o, Client, Lock, Type and Call count: Call is when that call began.
// From then on, the end of h is recorded. End the claim with Leave.
func (l *Log) Begin(o Op, h *holdfast.Hold) *Claim {
	l.mu.Lock()
	o.Kind, o.Outcome, o.Return = Acquire, OK, l.now()
	o.Claim = l.claim
	l.claim++
	o.Token, o.Session, o.Node, o.Slots = h.Token(), h.SessionID(), h.Path(), h.Slots()
	o.Seq, o.HasSeq = sequence(o.Node)
	l.add(o)
	l.mu.Unlock()
	c := &Claim{log: l, ops: []Op{o}}
	c.follow(h)
	return c
}

// follow records when h is lost.
func (c *Claim) follow(h *holdfast.Hold) {
	c.Hold = h
	c.stop = context.AfterFunc(h.Context(), func() {
		if errors.Is(context.Cause(h.Context()), holdfast.ErrLost) {
			c.end(Lose)
		}
	})
}

// end records the first end of the claim.
func (c *Claim) end(k Kind) []Op {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil
	}
	c.over = true
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	at := c.log.now()
	var ends []Op
	for _, o := range c.ops {
		o.Kind, o.Call, o.Return = k, at, Never
		o.Error = ""
		ends = append(ends, o)
		if k == Lose {
			c.log.add(o)
		}
	}
	return ends
}

// ID returns the number of the claim, for Op.Inside. For a MultiLock, it is that of its first
// part.
func (c *Claim) ID() int { return c.ops[0].Claim }

// Unlock ends the claim, and then the Hold.
func (c *Claim) Unlock() error { return c.EndBy(c.Hold.Unlock) }

// Release ends the claim, and then the Hold, by Hold.Release. The history does not say when the lock is
// free.
func (c *Claim) Release() error {
	c.session = func() int64 { return 0 } // the outcome is not known
	return c.EndBy(c.Hold.Release)
}

// Leave ends the claim, and leaves the Hold to the call that it belongs to. The history does not say when the
// lock is free.
func (c *Claim) Leave() {
	c.session = func() int64 { return 0 } // the outcome is not known
	c.EndBy(func() error { return nil })
}

// EndBy ends the claim, and then the Hold by unlock.
func (c *Claim) EndBy(unlock func() error) error {
	c.stop()
	ends := c.end(Release)
	deadline := c.Hold.Deadline()
	err := unlock()
	at := c.log.Now()
	for _, o := range ends {
		// If the session is over, the server removes the node when it notices that.
		over := !time.Now().Before(deadline) || c.session != nil && c.session() != c.SessionID()
		if err == nil && !over {
			o.Return = at
		}
		if err != nil {
			o.Error = err.Error()
		}
		c.log.Add(o)
	}
	return err
}

// sequence returns the number at the end of a node's name, as the server writes it.
func sequence(node string) (int32, bool) {
	for _, width := range [...]int{11, 10} { // a sign may come in front
		if cut := len(node) - width; cut >= 0 && (width == 10 || node[cut] == '-' && node[cut-1] == '-') {
			if n, err := strconv.ParseInt(node[cut:], 10, 32); err == nil && node[cut] != '+' {
				return int32(n), true
			}
		}
	}
	return 0, false
}

// tokenOf returns the token of the lock at path, among those that h holds.
func tokenOf(h *holdfast.Hold, path string) int64 {
	for _, t := range h.Tokens() {
		if t.Path == path {
			return t.Token
		}
	}
	return 0
}
