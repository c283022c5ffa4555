// Package otelholdfast traces holdfast's locks, and the ZooKeeper client below them, with OpenTelemetry. It is a
// module of its own, so programs without it do not get OpenTelemetry's API.
//
//	traces := otelholdfast.New()
//	cfg.Trace = traces.Trace()
//	c, err := zk.Dial(ctx, cfg)
//	…
//	m := holdfast.NewMutex(c, "/jobs/nightly", holdfast.WithObserver(traces.Observer()))
//
// Each call that acquires a lock has a span "holdfast.wait". The Hold that it returns has a span "holdfast.hold",
// from the acquisition to the release or the loss. Both are children of the span in the caller's context. Spans
// that start below the Hold's Context are children of "holdfast.hold".
//
// If the sampler has dropped the span in the caller's context, there are no spans below it. A span of another
// process is left to the sampler.
//
// OpenTelemetry has no semantic conventions for locks, so their attributes are our own:
//
//   - holdfast.lock.path: the path of the lock
//   - holdfast.lock.operation: "lock", "try lock", "read lock", "acquire", "campaign", …
//   - holdfast.lock.result, of a wait: "acquired", "locked" (TryLock found it held), "deadlock", "superseded", "queue_full", "timeout",
//     "canceled" or "error"
//   - holdfast.lock.permits, if the lock is a semaphore
//   - holdfast.lock.token and holdfast.lock.node, of a hold: the fencing token, and the path of the node
//
// Requests to ZooKeeper are spans of the kind client, with the conventions for databases.
package otelholdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"holdfast"
	"holdfast/zk"
)

const scope = "holdfast/contrib/otelholdfast"

// A Tracer makes spans of what happens to locks and clients. Any number of locks can share it.
type Tracer struct {
	tracer trace.Tracer
	links  *zk.Client // reads whom a wait is for; nil: nobody is looked for
}

// An Option sets one property of a Tracer.
type Option func(*config)

type config struct {
	provider trace.TracerProvider
	links    *zk.Client
}

// WithTracerProvider makes the spans with p. The default is the global provider, otel.GetTracerProvider.
func WithTracerProvider(p trace.TracerProvider) Option { return func(c *config) { c.provider = p } }

// WithLinks links the span of a wait to the holder that the lock was waited for, if the holder's node has a trace
// (see Labels). Once a wait has lasted a second, c reads the head of the queue. This takes at most four
// requests, and is done once for each wait. c must be a client of the servers and the chroot that the locks use.
// A semaphore has no single holder, so its waits have no links.
func WithLinks(c *zk.Client) Option { return func(cfg *config) { cfg.links = c } }

// New makes a Tracer.
func New(opts ...Option) *Tracer {
	cfg := config{provider: otel.GetTracerProvider()}
	for _, opt := range opts {
		opt(&cfg)
	}
	return &Tracer{
		tracer: cfg.provider.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		links:  cfg.links,
	}
}

// An attempt is a call that acquires a lock, and the Hold that it brought. The context that the call goes on with
// has it as a value.
type attempt struct {
	outer  context.Context // the caller's
	span   current         // in the context
	cancel context.CancelFunc
	timer  *time.Timer // begins the search for the holder; nil: there is none

	mu   sync.Mutex
	hold trace.Span // guarded by mu; nil: not acquired, or over
}

type attemptKey struct{ tracer *Tracer }

func (t *Tracer) attempt(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{t}).(*attempt)
	return a
}

// Observer returns hooks for [holdfast.WithObserver].
func (t *Tracer) Observer() *holdfast.Observer {
	return &holdfast.Observer{Queued: t.queued, Acquired: t.acquired, Lost: t.over, Released: t.over}
}

// dropped reports whether the sampler of this process has decided against s. Its descendants are not made then,
// since their cost is that of spans.
func dropped(s trace.Span) bool {
	c := s.SpanContext()
	return c.IsValid() && !c.IsRemote() && !c.IsSampled() && !s.IsRecording()
}

func (t *Tracer) queued(ctx context.Context, e holdfast.Event) context.Context {
	if dropped(trace.SpanFromContext(ctx)) {
		if t.attempt(ctx) == nil {
			return nil
		}
		// The attempt in ctx is that of an outer lock.
		return context.WithValue(ctx, attemptKey{t}, (*attempt)(nil))
	}
	inner, wait := t.tracer.Start(ctx, "holdfast.wait", trace.WithAttributes(about(e)...))
	a := &attempt{outer: ctx}
	a.span.set(wait)
	inner = trace.ContextWithSpan(context.WithValue(inner, attemptKey{t}, a), &a.span)
	if t.links != nil && wait.IsRecording() {
		search, cancel := context.WithCancel(trace.ContextWithSpan(inner, wait))
		a.cancel = cancel
		a.timer = time.AfterFunc(patience, func() { t.link(search, a, wait, e) })
	}
	return inner
}

func about(e holdfast.Event) []attribute.KeyValue {
	attrs := append(make([]attribute.KeyValue, 0, 5), // with those of a hold
		attribute.String("holdfast.lock.path", e.Path),
		attribute.String("holdfast.lock.operation", e.Op),
	)
	if e.Permits > 0 {
		attrs = append(attrs, attribute.Int("holdfast.lock.permits", e.Permits))
	}
	return attrs
}

func (t *Tracer) acquired(ctx context.Context, e holdfast.Event) {
	a := t.attempt(ctx)
	if a == nil {
		return
	}
	if a.timer != nil {
		a.timer.Stop()
		a.cancel()
	}
	wait := a.span.get()
	r := e.Outcome
	wait.SetAttributes(attribute.String("holdfast.lock.result", r))
	// That TryLock finds the lock held is an answer, and no failure.
	if e.Err != nil && r != "locked" {
		failed(wait, r, e.Err)
	}
	if e.Hold != nil {
		_, hold := t.tracer.Start(a.outer, "holdfast.hold", trace.WithAttributes(append(about(e),
			attribute.Int64("holdfast.lock.token", e.Hold.Token()),
			attribute.String("holdfast.lock.node", e.Hold.Path()),
		)...))
		a.mu.Lock()
		a.hold = hold
		a.mu.Unlock()
		a.span.set(hold)
	}
	wait.End()
}

// over ends the span of a hold that was lost or released, whichever comes first.
func (t *Tracer) over(ctx context.Context, e holdfast.Event) {
	a := t.attempt(ctx)
	if a == nil {
		return
	}
	a.mu.Lock()
	hold := a.hold
	a.hold = nil
	a.mu.Unlock()
	if hold == nil {
		return
	}
	switch {
	case errors.Is(e.Err, holdfast.ErrLost):
		failed(hold, "lost", e.Err)
	case e.Err != nil:
		failed(hold, "error", e.Err)
	}
	hold.End()
}

// failed marks a span as failed, with the kind of the error.
func failed(s trace.Span, kind string, err error) {
	s.SetAttributes(semconv.ErrorTypeKey.String(kind))
	s.SetStatus(codes.Error, err.Error())
}
