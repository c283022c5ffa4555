package promholdfast

import (
	"context"
	"errors"
	"time"

	"holdfast"
	"holdfast/zk"
)

// results are the values of the label result of holdfast_acquire_total and holdfast_wait_seconds.
var results = []string{"acquired", "locked", "timeout", "canceled", "deadlock", "error"}

// reasons are the values of the label reason of holdfast_lost_total.
var reasons = []string{"session_expired", "client_closed", "auth_failed", "node_removed"}

// Observer returns hooks for [holdfast.WithObserver]. All locks can share them.
//
// If the context of a call has a sampled trace of OpenTelemetry, its times are exemplars with the labels
// trace_id and span_id.
func (c *Collector) Observer() *holdfast.Observer {
	return &holdfast.Observer{
		Queued: func(_ context.Context, e holdfast.Event) context.Context {
			c.of(e).waiters.Inc()
			c.mu.Lock()
			c.enter(e.Path)
			c.mu.Unlock()
			return nil
		},
		Acquired: c.acquired,
		Lost: func(ctx context.Context, e holdfast.Event) {
			c.of(e).losses[reason(e.Err)].Inc()
			c.over(ctx, e)
		},
		Released: c.over,
	}
}

func (c *Collector) of(e holdfast.Event) *lockMetrics { return c.locks[c.names.of(e.Path)] }

func (c *Collector) acquired(ctx context.Context, e holdfast.Event) {
	now := time.Now()
	l := c.of(e)
	r := result(ctx, e.Err)
	l.waiters.Dec()
	l.acquisitions[r].Inc()
	if e.Hold == nil {
		observe(ctx, c.waits.WithLabelValues(l.label, r), e.Took)
		c.mu.Lock()
		c.leave(e.Path)
		c.mu.Unlock()
		return
	}
	observe(ctx, l.acquired, e.Took)
	c.mu.Lock()
	c.current[e.Hold] = l
	handoff, ok := c.queues[e.Path].acquired(ctx, l, e, now)
	c.mu.Unlock()
	l.held.Inc()
	if ok {
		observe(ctx, l.handoff, handoff)
	}
}

// over ends a hold that was lost or released, whichever comes first.
func (c *Collector) over(ctx context.Context, e holdfast.Event) {
	c.mu.Lock()
	l, ok := c.current[e.Hold]
	if ok {
		delete(c.current, e.Hold)
		c.leave(e.Path)
	}
	c.mu.Unlock()
	if ok {
		l.held.Dec()
		observe(ctx, l.hold, e.Took)
	}
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
