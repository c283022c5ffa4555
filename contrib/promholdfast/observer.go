package promholdfast

import (
	"context"
	"slices"

	"holdfast"
)

var (
	results = holdfast.Outcomes() // of the label result of holdfast_acquire_total and holdfast_wait_seconds
	reasons = holdfast.Losses()   // of the label reason of holdfast_lost_total
)

// Observer returns hooks for [holdfast.WithObserver]. All locks can share them.
//
// If the context of a call has a sampled trace of OpenTelemetry, the times of its wait, hold and handoff are
// exemplars with the labels trace_id and span_id.
func (c *Collector) Observer() *holdfast.Observer {
	return &holdfast.Observer{
		Queued: func(_ context.Context, e holdfast.Event) context.Context {
			c.note(&event{kind: queued, name: e.Path})
			return nil
		},
		Acquired: func(ctx context.Context, e holdfast.Event) {
			noted := event{kind: acquired, name: e.Path, hold: e.Hold, exclusive: exclusive(e.Op), took: e.Took, at: tick(), span: sampled(ctx)}
			if e.Hold == nil {
				noted.outcome = index(results, e.Outcome)
			}
			c.note(&noted)
		},
		Lost: func(_ context.Context, e holdfast.Event) {
			c.note(&event{kind: lost, name: e.Path, outcome: index(reasons, e.Outcome), hold: e.Hold, took: e.Took})
		},
		Released: func(_ context.Context, e holdfast.Event) {
			c.note(&event{kind: released, hold: e.Hold, took: e.Took})
		},
	}
}

// index is the position of a value of a label. The last value stands for those that are not known.
func index(all []string, one string) uint8 {
	if i := slices.Index(all, one); i >= 0 {
		return uint8(i)
	}
	return uint8(len(all) - 1)
}

// acquired folds the end of a call.
func (c *Collector) acquired(e *event) {
	q := c.queues[e.name]
	l := q.lock
	l.waiting--
	if e.hold == nil {
		c.leave(q)
		l.acquisitions[e.outcome].Inc()
		observe(e.span, c.waits.WithLabelValues(l.label, results[e.outcome]), e.took)
		return
	}
	l.holding++
	c.current[e.hold] = tenure{q, e.span}
	l.acquired.Inc()
	observe(e.span, l.waited, e.took)
	q.acquired(e)
}

// over folds the end of a hold that was lost or released, whichever comes first.
func (c *Collector) over(e *event) {
	h, ok := c.current[e.hold]
	if !ok {
		return
	}
	l := h.queue.lock
	l.holding--
	delete(c.current, e.hold)
	c.leave(h.queue)
	observe(h.span, l.hold, e.took)
}
