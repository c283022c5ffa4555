package promholdfast

import (
	"context"
	"errors"

	"holdfast"
	"holdfast/zk"
)

// results are the values of the label result of holdfast_acquire_total and holdfast_wait_seconds.
var results = []string{"acquired", "locked", "timeout", "canceled", "deadlock", "error"}

// reasons are the values of the label reason of holdfast_lost_total.
var reasons = []string{"session_expired", "client_closed", "auth_failed", "node_removed"}

// Observer returns hooks for [holdfast.WithObserver]. All locks can share them.
//
// If the context of a call has a sampled trace of OpenTelemetry, the times of its wait, hold and handoff are
// exemplars with the labels trace_id and span_id.
func (c *Collector) Observer() *holdfast.Observer {
	return &holdfast.Observer{
		Queued: func(_ context.Context, e holdfast.Event) context.Context {
			c.mu.Lock()
			c.enter(e.Path).lock.waiting++
			c.mu.Unlock()
			return nil
		},
		Acquired: c.acquired,
		Lost: func(ctx context.Context, e holdfast.Event) {
			c.locks[c.names.of(e.Path)].losses[reason(e.Err)].Inc()
			c.over(ctx, e)
		},
		Released: c.over,
	}
}

func (c *Collector) acquired(ctx context.Context, e holdfast.Event) {
	c.mu.Lock()
	q := c.queues[e.Path]
	l := q.lock
	l.waiting--
	if e.Hold == nil {
		c.leave(q)
		c.mu.Unlock()
		r := result(ctx, e.Err)
		l.acquisitions[r].Inc()
		c.times.observe(ctx, c.waits.WithLabelValues(l.label, r), e.Took)
		return
	}
	l.holding++
	c.current[e.Hold] = q
	handoff, ok := q.acquired(ctx, e)
	c.mu.Unlock()
	l.acquired.Inc()
	c.times.observe(ctx, l.waited, e.Took)
	if ok {
		c.times.observe(ctx, l.handoff, handoff)
	}
}

// over ends a hold that was lost or released, whichever comes first.
func (c *Collector) over(ctx context.Context, e holdfast.Event) {
	c.mu.Lock()
	q, ok := c.current[e.Hold]
	if !ok {
		c.mu.Unlock()
		return
	}
	l := q.lock
	l.holding--
	delete(c.current, e.Hold)
	c.leave(q)
	c.mu.Unlock()
	c.times.observe(ctx, l.hold, e.Took)
}

// result classifies the end of a call. A context can end with any cause, so ctx is asked and not err.
func result(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return "acquired"
	case errors.Is(err, holdfast.ErrLocked):
		return "locked"
	case errors.Is(err, holdfast.ErrDeadlock):
		return "deadlock"
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "timeout"
	case ctx.Err() != nil:
		return "canceled"
	}
	return "error"
}

// reason classifies a loss. A hold is lost with its session, or with its node.
func reason(err error) string {
	switch {
	case errors.Is(err, zk.ErrClosed):
		return "client_closed"
	case errors.Is(err, zk.ErrAuthFailed):
		return "auth_failed"
	case errors.Is(err, zk.ErrSessionExpired):
		return "session_expired"
	}
	return "node_removed"
}
