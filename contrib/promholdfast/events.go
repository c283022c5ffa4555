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
	exclusive bool            // of a call, see exclusive
	failed    bool            // of a request
	outcome   uint8           // of a call that failed, in results; of a loss, in reasons
	name      string          // the path of the lock or of the deleted node, or the operation of a request
	hold      *holdfast.Hold  // nil if the call has failed
	took, at  time.Duration   // at is when it was reported, as tick gives it; 0 if nobody needs it
	ctx       context.Context // of a call, if it has a sampled trace
}

// events are on their way to the metrics. To find the metrics of an event and to add to them takes longer than all
// else that a hook does, so a hook only notes its event. When a batch is full, a goroutine folds it into the
// metrics while hooks fill another batch. A scrape first folds what is left. If hooks are faster than the
// goroutine, they wait for it. So the memory is that of two batches, and the events stay in order.
//
// The goroutine that folds owns all that folding changes: queues, current, and the metrics. It is the one that has
// taken spare, or the caller of settle.
type events struct {
	mu      sync.Mutex
	filling []event    // guarded by mu
	spare   []event    // an empty batch; nil while a goroutine folds the other; guarded by mu
	folded  *sync.Cond // spare is back
}

// batch is how many events a goroutine is worth.
const batch = 1024

func newEvents() *events {
	es := &events{filling: make([]event, 0, batch), spare: make([]event, 0, batch)}
	es.folded = sync.NewCond(&es.mu)
	return es
}

// note adds e to the events.
func (c *Collector) note(e *event) {
	es := c.events
	es.mu.Lock()
	for len(es.filling) == batch {
		if es.spare == nil {
			es.folded.Wait()
			continue
		}
		full := es.filling
		es.filling, es.spare = es.spare, nil
		go func() {
			c.fold(full)
			es.mu.Lock()
			es.spare = full[:0]
			es.mu.Unlock()
			es.folded.Broadcast()
		}()
	}
	es.filling = append(es.filling, *e)
	es.mu.Unlock()
}

// settle calls f when all events are in the metrics, and no event can be added.
func (c *Collector) settle(f func()) {
	es := c.events
	es.mu.Lock()
	defer es.mu.Unlock()
	for es.spare == nil {
		es.folded.Wait()
	}
	c.fold(es.filling)
	es.filling = es.filling[:0]
	f()
}

// fold adds the events to the metrics, and forgets them.
func (c *Collector) fold(batch []event) {
	for i := range batch {
		switch e := &batch[i]; e.kind {
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
	clear(batch)
}

var origin = time.Now()

// tick reads the monotonic clock, which takes less time than time.Now.
func tick() time.Duration { return time.Since(origin) }

// sampled returns ctx if it has a sampled trace, or else nil.
func sampled(ctx context.Context) context.Context {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() && span.IsValid() {
		return ctx
	}
	return nil
}

// observe adds took to a histogram. If ctx is not nil, the observation is an exemplar with the ids of its trace.
func observe(ctx context.Context, to prometheus.Observer, took time.Duration) {
	if ctx != nil {
		if to, ok := to.(prometheus.ExemplarObserver); ok {
			span := trace.SpanContextFromContext(ctx)
			to.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": span.TraceID().String(), "span_id": span.SpanID().String()})
			return
		}
	}
	to.Observe(took.Seconds())
}
