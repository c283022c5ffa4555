package promholdfast

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"holdfast"
)

// A kind tells what an event reports.
type kind uint8

const (
	queued kind = iota
	acquired
	lost
	released
	requested
	deleted // a request that has deleted a node
)

// An event is what a hook has noted.
type event struct {
	kind      kind
	exclusive bool           // of acquired, see exclusive
	failed    bool           // of a request
	outcome   uint8          // of a call that failed, in results; of a loss, in reasons; of a request that failed, in requestResults
	name      string         // the path of the lock or of the deleted node, or the operation of a request
	hold      *holdfast.Hold // of acquired, lost and released; nil if the call has failed
	took, at  time.Duration  // at, only of acquired and deleted, is when it was reported, as tick gives it
	span      *span          // of acquired; nil if the call has no sampled trace
}

// A span names the trace of an exemplar.
type span struct {
	trace trace.TraceID
	id    trace.SpanID
}

// events are on their way to the metrics. A fold is slower than the rest of a hook, so a hook only notes its event. When
// a batch is full, a goroutine folds it into the metrics while hooks fill another batch. An event that is latest old is
// folded, too, so a Collector without scrapes does not keep the Holds of its last events. A scrape first folds what is
// left. If hooks are faster than the goroutine, they wait for it. So the memory is that of two batches, and the events
// stay in order.
//
// The locks are mutexes, and no sync.Cond: a Collector can be that of several testing/synctest bubbles.
type events struct {
	mu      sync.Mutex // taken before folding
	filling []event    // guarded by mu
	due     bool       // a timer will fold; guarded by mu

	folding sync.Mutex // guards the fields below, and all that a fold changes: queues, current and the metrics
	spare   []event    // an empty batch
}

const (
	// batch is the number of events that one goroutine folds.
	batch = 1024
	// latest is how old an event gets before it is folded, if there are no others.
	latest = time.Second
)

func newEvents() *events {
	return &events{filling: make([]event, 0, batch), spare: make([]event, 0, batch)}
}

// note adds e to the events.
func (c *Collector) note(e *event) {
	es := c.events
	es.mu.Lock()
	switch len(es.filling) {
	case batch:
		es.folding.Lock()
		full := es.filling
		es.filling = es.spare
		go func() {
			c.fold(full)
			es.spare = full[:0]
			es.folding.Unlock()
		}()
	case 0:
		if !es.due {
			es.due = true
			time.AfterFunc(latest, func() { c.settle(func() { es.due = false }) })
		}
	}
	es.filling = append(es.filling, *e)
	es.mu.Unlock()
}

// settle calls f when all events are in the metrics, and no event can be added.
func (c *Collector) settle(f func()) {
	es := c.events
	es.mu.Lock()
	defer es.mu.Unlock()
	es.folding.Lock()
	defer es.folding.Unlock()
	c.fold(es.filling)
	es.filling = es.filling[:0]
	f()
}

// fold adds the events to the metrics, and forgets them. The caller has locked folding.
func (c *Collector) fold(noted []event) {
	for i := range noted {
		switch e := &noted[i]; e.kind {
		case queued:
			c.enter(e.name).lock.waiting++
		case acquired:
			c.acquired(e)
		case lost:
			c.locks[c.names.of(e.name)].losses[e.outcome].Inc()
			c.over(e)
		case released:
			c.over(e)
		case requested:
			c.client.requestDone(e.name, e)
		case deleted:
			c.deleted(e.name, e.at-e.took)
			c.client.requestDone("delete", e)
		}
	}
	clear(noted)
}

var origin = time.Now()

// tick reads the monotonic clock. time.Now takes longer, because it also reads the wall clock.
func tick() time.Duration { return time.Since(origin) }

// sampled returns the span in ctx if its trace is sampled, or else nil.
func sampled(ctx context.Context) *span {
	if s := trace.SpanContextFromContext(ctx); s.IsSampled() && s.IsValid() {
		return &span{s.TraceID(), s.SpanID()}
	}
	return nil
}

// observe adds took to a histogram. If s is not nil, the observation is an exemplar with the ids of s.
func observe(s *span, to prometheus.Observer, took time.Duration) {
	if s != nil {
		if to, ok := to.(prometheus.ExemplarObserver); ok {
			to.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": s.trace.String(), "span_id": s.id.String()})
			return
		}
	}
	to.Observe(took.Seconds())
}
