package mcp

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/outer"
	"holdfast/internal/cli/term"
)

// A stuck is what a wait of the agent has found out about deadlocks.
type stuck struct {
	found atomic.Pointer[deadlock.Deadlock] // the one that the wait is in, or nil
}

// watch looks for a deadlock that the wait for k is in, until ctx ends. If the wait is its victim, watch calls giveUp.
func (s *stuck) watch(ctx context.Context, k *claim, c *conn.Connection, giveUp context.CancelCauseFunc) {
	w := deadlock.Watch{
		Client: c.Client, Prefixes: deadlock.Prefixes(k.Flags, append(outer.Paths(k.target.URL), k.queues()...)), LockName: k.nameOf,
		Yield: k.yields, Called: "you", End: "release what you hold",
	}
	w.Run(ctx, func(d *deadlock.Deadlock) {
		s.found.Store(d)
		if d != nil && d.Victim {
			giveUp(&term.Fault{Code: term.ExitDeadlock, Err: fmt.Errorf("%s: deadlock", k.name)})
		}
	})
}

// text says what the agent has to know of the deadlock, or is "".
func (s *stuck) text(held *holds) string {
	d := s.found.Load()
	if d == nil {
		return ""
	}
	text := fmt.Sprintf("DEADLOCK: %s. ", d.Cycle)
	if mine := held.withToken(d.Token); mine != nil {
		return text + fmt.Sprintf("Release id %s (%s) first: %s waits for it. Then acquire both again, in alphabetical order.", mine.id, term.Escape(mine.name), d.Waiter)
	}
	return text + fmt.Sprintf("%s waits for %s, which the program around you holds: end your work without this lock.", d.Waiter, d.Release)
}

// answered puts the deadlock into the answer of a wait that has not got its lock.
func (s *stuck) answered(data map[string]any, held *holds) {
	d := s.found.Load()
	if d == nil {
		return
	}
	data["deadlock"] = true
	if mine := held.withToken(d.Token); mine != nil {
		data["release_first"] = mine.id
	}
}

// withToken returns the Hold with a token, or nil.
func (o *holds) withToken(token int64) *agentHold {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := slices.IndexFunc(o.all, func(h *agentHold) bool {
		return slices.ContainsFunc(h.hold.Tokens(), func(t holdfast.LockToken) bool { return t.Token == token })
	})
	if i < 0 {
		return nil
	}
	return o.all[i]
}
