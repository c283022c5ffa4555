package promholdfast

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// times are measurements on their way to the histograms. An observation in a native histogram takes longer than
// all else that a hook does, so a hook only notes its measurement. When a batch is full, a goroutine adds it to
// the histograms while hooks fill another batch. A scrape first adds what is left. If hooks are faster than the
// goroutine, they add their measurements themselves, so the memory is that of two batches.
type times struct {
	mu      sync.Mutex
	filling []measurement // guarded by mu
	other   []measurement // the empty one; nil while a goroutine folds it; guarded by mu
	folded  *sync.Cond    // other is back
}

type measurement struct {
	to   prometheus.Observer
	took time.Duration
}

// batch is how many measurements a goroutine is worth.
const batch = 512

func newTimes() *times {
	t := &times{filling: make([]measurement, 0, batch), other: make([]measurement, 0, batch)}
	t.folded = sync.NewCond(&t.mu)
	return t
}

// observe adds took to a histogram, at the next scrape at the latest. If ctx has a sampled trace, the observation
// is an exemplar with its ids and the present time, so it is added at once.
func (t *times) observe(ctx context.Context, to prometheus.Observer, took time.Duration) {
	if span := trace.SpanContextFromContext(ctx); span.IsSampled() && span.IsValid() {
		if e, ok := to.(prometheus.ExemplarObserver); ok {
			e.ObserveWithExemplar(took.Seconds(), prometheus.Labels{"trace_id": span.TraceID().String(), "span_id": span.SpanID().String()})
			return
		}
	}
	t.mu.Lock()
	if len(t.filling) < batch {
		t.filling = append(t.filling, measurement{to, took})
		t.mu.Unlock()
		return
	}
	full := t.filling
	if t.other == nil { // the goroutine is still busy
		t.mu.Unlock()
		to.Observe(took.Seconds())
		return
	}
	t.filling, t.other = append(t.other, measurement{to, took}), nil
	t.mu.Unlock()
	go func() {
		add(full)
		t.mu.Lock()
		t.other = full[:0]
		t.mu.Unlock()
		t.folded.Broadcast()
	}()
}

// fold adds all measurements to their histograms.
func (t *times) fold() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.other == nil {
		t.folded.Wait()
	}
	add(t.filling)
	t.filling = t.filling[:0]
}

func add(ms []measurement) {
	for _, m := range ms {
		m.to.Observe(m.took.Seconds())
	}
}
