package chaos

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// A LockType is the type of a lock. It selects the model that the lock is checked against.
type LockType string

// The types of lock.
const (
	Mutex     LockType = "mutex"     // one at a time: Mutex, NodeLock, a part of a MultiLock
	ReadWrite LockType = "rw"        // one writer or many readers
	Semaphore LockType = "semaphore" // up to Limit permits
	Election  LockType = "election"  // a mutex whose token is a term that others can observe
	// A key of a once.Once. A claim is a run of its function, from the call until it returns.
	Once       LockType = "once"
	AtMostOnce LockType = "at most once" // with that option
)

// A Kind is the kind of an operation.
type Kind string

// The kinds of operation.
const (
	Acquire Kind = "acquire" // waits; OK begins a claim
	Try     Kind = "try"     // does not wait; OK begins a claim, Failed means that another client was ahead
	Release Kind = "release" // ends a claim
	Lose    Kind = "lose"    // ends a claim: Call is when its Context ended, Return is Never
	Break   Kind = "break"   // an operator takes a lock away; it counts from Call on
	Observe Kind = "observe" // reads the leader: Token is the term
	Change  Kind = "change"  // sets the limit of a semaphore
	// Answer is the answer of a Once for a key. OK: Token and Inside are the token and the claim of the run
	// that it names. Failed: the run with this token has begun and has no result.
	Answer Kind = "answer"
	// Reserve reserves the lock for Lasts; 0 ends the reservation.
	Reserve Kind = "reserve"
	// Turn asks whether a run of the period Lasts is due. OK: Token and Began are those of the run that begins. Failed:
	// they are those of the run that was before, and Queued is when the caller joined the queue.
	Turn Kind = "turn"
	// Done records the run with Token and Began.
	Done Kind = "done"
)

// An Outcome is the known part of an operation's result.
type Outcome string

// The outcomes.
const (
	OK Outcome = "ok"
	// Failed: the operation has had no effect, and will have none.
	Failed Outcome = "failed"
	// Unknown: the operation may have had an effect, or may have one later. The answer was
	// lost, the client was killed, or the call returned before its clean-up was done.
	Unknown Outcome = "unknown"
)

// Never is the Return of an operation that may take effect at any time after its Call.
const Never time.Duration = math.MaxInt64

// An Op is one operation on one lock. Its times count from the start of the history, by one
// clock for all clients.
type Op struct {
	Client  int           `json:"client"`
	Claim   int           `json:"claim,omitempty"` // the number of the attempt, unique across clients
	Kind    Kind          `json:"kind"`
	Lock    string        `json:"lock"` // its path
	Type    LockType      `json:"type"`
	Shared  bool          `json:"shared,omitempty"`  // the read side
	Permits int           `json:"permits,omitempty"` // asked for; 0 is 1
	Limit   int           `json:"limit,omitempty"`   // of a semaphore: at first, or from a change on
	Handoff int           `json:"handoff,omitempty"` // how often its client hands the node on from one claim to the next (WithLocalHandoff)
	Keep    time.Duration `json:"keep,omitempty"`    // how long its client keeps the idle node after a claim (WithKeep)
	Lasts   time.Duration `json:"lasts,omitempty"`   // a reservation, or the period of a turn
	Began   time.Duration `json:"began,omitempty"`   // when the run of a turn began
	Inside  int           `json:"inside,omitempty"`  // the claim of this lock that the attempt was made under, by a re-entrant lock or a writer that steps down
	Call    time.Duration `json:"call"`
	Return  time.Duration `json:"return"`
	Outcome Outcome       `json:"outcome,omitempty"`
	Token   int64         `json:"token,omitempty"`
	Tree    int64         `json:"tree,omitempty"`  // the token of the tree's root, of a part of a lock of a Tree
	Node    string        `json:"node,omitempty"`  // path of the node that holds
	Slots   []int         `json:"slots,omitempty"` // the numbers of all slots that the claim has; Node is that of the first
	Seq     int32         `json:"seq,omitempty"`   // its number
	HasSeq  bool          `json:"numbered,omitempty"`
	Queued  time.Duration `json:"queued,omitempty"` // its node was in the queue by then; 0: not known
	Session int64         `json:"session,omitempty"`
	Strayed bool          `json:"strayed,omitempty"` // it began in another session, and may have left a node there until that session ends
	Error   string        `json:"error,omitempty"`
}

// reuses reports whether several claims of its client may follow each other with one node.
func (o Op) reuses() bool { return o.Handoff > 0 || o.Keep > 0 }

// String returns a readable line.
func (o Op) String() string {
	end := "never"
	if o.Return != Never {
		end = o.Return.String()
	}
	s := fmt.Sprintf("%v..%s client %d %s %s", o.Call, end, o.Client, o.Kind, o.Lock)
	if o.Claim != 0 {
		s += fmt.Sprintf(" #%d", o.Claim)
	}
	if o.Shared {
		s += " shared"
	}
	if o.Permits > 1 {
		s += fmt.Sprintf(" x%d", o.Permits)
	}
	if o.Outcome != "" {
		s += " " + string(o.Outcome)
	}
	if o.Token != 0 {
		s += fmt.Sprintf(" token %d", o.Token)
	}
	if o.HasSeq {
		s += fmt.Sprintf(" number %d", o.Seq)
	}
	if o.Session != 0 {
		s += fmt.Sprintf(" session 0x%x", uint64(o.Session))
	}
	if o.Error != "" {
		s += " (" + o.Error + ")"
	}
	return s
}

// Write writes a history, one operation per line.
func Write(w io.Writer, ops []Op) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	for _, o := range ops {
		if err := e.Encode(o); err != nil {
			return err
		}
	}
	return b.Flush()
}

// Read reads the output of Write, or several such outputs in sequence. It ignores an incomplete
// last line, which a killed process leaves behind.
func Read(r io.Reader) ([]Op, error) {
	var ops []Op
	b := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := b.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return ops, nil
		}
		if err != nil {
			return ops, err
		}
		var o Op
		if err := json.Unmarshal(line, &o); err != nil {
			return ops, fmt.Errorf("chaos: history, line %d: %w", n, err)
		}
		ops = append(ops, o)
	}
}
