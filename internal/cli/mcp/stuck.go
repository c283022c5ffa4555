package mcp

import (
	"context"
	"fmt"
	"sync/atomic"

	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/term"
)

// A stuck is what a wait of the agent has found out about deadlocks.
type stuck struct {
	found atomic.Pointer[deadlock.Deadlock] // the one that the wait is in, or nil
}

// watch looks for a deadlock that the wait for the named lock is in, until ctx ends. If the wait is its victim, watch calls
// giveUp.
func (s *stuck) watch(ctx context.Context, w deadlock.Watch, name string, giveUp context.CancelCauseFunc) {
	w.Run(ctx, func(d *deadlock.Deadlock) {
		s.found.Store(d)
		if d != nil && d.Victim {
			giveUp(&term.Fault{Code: term.ExitDeadlock, Err: fmt.Errorf("%s: deadlock", name)})
		}
	})
}

// An own returns the id and the name of the agent's Hold with a token, or "".
type own func(token int64) (id, name string)

// text says what the agent has to know of the deadlock, or is "".
func (s *stuck) text(hold own) string {
	d := s.found.Load()
	if d == nil {
		return ""
	}
	text := fmt.Sprintf("DEADLOCK: %s. ", d.Cycle)
	if id, name := hold(d.Token); id != "" {
		return text + fmt.Sprintf("Release id %s (%s) first: %s waits for it. Then acquire both again, in alphabetical order.", id, term.Escape(name), d.Waiter)
	}
	return text + fmt.Sprintf("%s waits for %s, which the program around you holds: end your work without this lock.", d.Waiter, d.Release)
}

// answered puts the deadlock into the answer of a wait that has not got its lock.
func (s *stuck) answered(data map[string]any, hold own) {
	d := s.found.Load()
	if d == nil {
		return
	}
	data["deadlock"] = true
	if id, _ := hold(d.Token); id != "" {
		data["release_first"] = id
	}
}
