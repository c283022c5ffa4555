package gocronholdfast

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"holdfast"
	"holdfast/zk"
)

// ErrNotLeader means that this process does not lead, or cannot prove it.
var ErrNotLeader = errors.New("this process does not lead")

// An Elector is a gocron.Elector: one process leads, and its scheduler runs all jobs. It is safe for concurrent use.
//
// An Elector does not record the fires. When the leader changes, the new one can run a fire that the former leader
// has run, if their schedulers do not fire at the same moment, and a fire is left out if nobody leads. A [Locker] has neither fault.
type Elector struct {
	log    *slog.Logger
	cancel context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	term *holdfast.Hold // the latest; guarded by mu
}

// NewElector campaigns in the election at path until Close. If the lead is lost, it campaigns again. value is what
// others read as the leader, see [holdfast.Election].
//
// Use a [holdfast.Election] with the same path to see who leads.
func NewElector(c *zk.Client, path string, value []byte, opts ...ElectorOption) *Elector {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Elector{log: slog.Default(), cancel: cancel, done: make(chan struct{})}
	for _, o := range opts {
		o.elector(e)
	}
	election := holdfast.NewElection(c, path)
	go func() {
		defer close(e.done)
		for pause := time.Duration(0); ctx.Err() == nil; {
			err := election.Lead(ctx, value, func(term context.Context) error {
				pause = 0
				h, _ := holdfast.FromContext(term)
				e.mu.Lock()
				e.term = h
				e.mu.Unlock()
				<-term.Done()
				return nil
			})
			if ctx.Err() != nil {
				return
			}
			pause = min(max(2*pause, 100*time.Millisecond), 10*time.Second)
			e.log.Error("the campaign has failed, and begins again", "election", path, "error", err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}()
	return e
}

// IsLeader implements gocron.Elector. It returns nil if this process leads, and ErrNotLeader otherwise. It asks nobody:
// the answer follows from the deadline of the Hold, until which the server certainly keeps the lead. So it is
// never yes after another process can lead, and a server that does not answer delays nothing.
//
// A job can outlast the lead: the answer is about the moment of the call.
func (e *Elector) IsLeader(context.Context) error {
	e.mu.Lock()
	h := e.term
	e.mu.Unlock()
	if h == nil {
		return ErrNotLeader
	}
	if err := h.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	if over := time.Since(h.Deadline()); over >= 0 {
		return fmt.Errorf("%w: its lease ended %v ago", ErrNotLeader, over)
	}
	return nil
}

// Close resigns, and returns when that is certain or the session is over. Then IsLeader never answers nil again.
func (e *Elector) Close() {
	e.cancel()
	<-e.done
}
