package otelholdfast

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"holdfast"
	"holdfast/layout"
	"holdfast/once"
	"holdfast/zk"
	"holdfast/zktest"
)

// A world is a server, a Tracer and a client that reports to it. ctx has the caller's span.
type world struct {
	*testing.T
	srv      *zktest.Server
	recorder *tracetest.SpanRecorder
	tracer   *Tracer
	program  trace.Tracer // that of the program
	ctx      context.Context
	caller   trace.Span
	c        *zk.Client
}

// inBubble runs f with a world in virtual time.
func inBubble(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		srv := zktest.NewServer()
		defer srv.Close()
		w := &world{T: t, srv: srv, recorder: tracetest.NewSpanRecorder()}
		provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(w.recorder))
		w.tracer = New(WithTracerProvider(provider), WithLinks(srv.Client()))
		w.program = provider.Tracer("program")
		w.ctx, w.caller = w.program.Start(t.Context(), "caller")
		cfg := srv.Config()
		cfg.Trace = w.tracer.Trace()
		var err error
		if w.c, err = zk.Dial(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		defer w.c.Close()
		f(t, w)
	})
}

func (w *world) mutex(opts ...holdfast.Option) *holdfast.Mutex {
	return holdfast.NewMutex(w.c, "/l", append(opts, holdfast.WithObserver(w.tracer.Observer()))...)
}

func (w *world) lock(ctx context.Context, l holdfast.Locker) *holdfast.Hold {
	w.Helper()
	h, err := l.Lock(ctx)
	if err != nil {
		w.Fatal(err)
	}
	return h
}

// ended returns the spans of one name that have ended, in the order of their ends.
func (w *world) ended(name string) []sdk.ReadOnlySpan {
	return slices.DeleteFunc(w.recorder.Ended(), func(s sdk.ReadOnlySpan) bool { return s.Name() != name })
}

// one returns the only span of a name that has ended.
func (w *world) one(name string) sdk.ReadOnlySpan {
	w.Helper()
	spans := w.ended(name)
	if len(spans) != 1 {
		w.Fatalf("%d spans %s have ended; want 1", len(spans), name)
	}
	return spans[0]
}

func attributes(s sdk.ReadOnlySpan) map[string]any {
	all := make(map[string]any)
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func TestSpansOfALock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		outside := w.lock(t.Context(), holdfast.NewMutex(w.srv.Client(), "/l"))
		time.AfterFunc(3*time.Second, func() { outside.Unlock() })
		h := w.lock(w.ctx, w.mutex())
		token, node := h.Token(), h.Path()
		_, work := w.program.Start(h.Context(), "work")
		work.End()
		if len(w.ended("holdfast.hold")) > 0 {
			t.Error("the span of the hold ended before the hold")
		}
		time.Sleep(time.Minute)
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}

		wait, hold := w.one("holdfast.wait"), w.one("holdfast.hold")
		for _, s := range []sdk.ReadOnlySpan{wait, hold} {
			if s.Parent().SpanID() != w.caller.SpanContext().SpanID() {
				t.Errorf("%s is not a child of the caller's span", s.Name())
			}
			if s.SpanKind() != trace.SpanKindInternal || s.Status().Code != codes.Unset {
				t.Errorf("%s: kind %v, status %v", s.Name(), s.SpanKind(), s.Status())
			}
		}
		if parent := w.one("work").Parent().SpanID(); parent != hold.SpanContext().SpanID() {
			t.Error("work under the lock is not a child of the hold")
		}
		if took := wait.EndTime().Sub(wait.StartTime()); took != 3*time.Second {
			t.Errorf("the wait took %v", took)
		}
		if took := hold.EndTime().Sub(hold.StartTime()); took != time.Minute {
			t.Errorf("the hold took %v", took)
		}
		for _, tt := range []struct {
			span sdk.ReadOnlySpan
			want map[string]any
		}{
			{wait, map[string]any{"holdfast.lock.path": "/l", "holdfast.lock.operation": "lock", "holdfast.lock.result": "acquired"}},
			{hold, map[string]any{"holdfast.lock.path": "/l", "holdfast.lock.operation": "lock", "holdfast.lock.token": token, "holdfast.lock.node": node}},
		} {
			if got := attributes(tt.span); !maps.Equal(got, tt.want) {
				t.Errorf("%s has %v; want %v", tt.span.Name(), got, tt.want)
			}
		}
	})
}

func TestEndsOfWaitsAndHolds(t *testing.T) {
	for name, tt := range map[string]struct {
		story  func(w *world)
		span   string // the last of this name
		result string
		kind   string // error.type
	}{
		"TryLock finds it held": {func(w *world) {
			w.lock(w.Context(), w.mutex())
			w.mutex().TryLock(w.ctx)
		}, "holdfast.wait", "locked", ""},
		"a deadlock": {func(w *world) { w.mutex().Lock(w.lock(w.ctx, w.mutex()).Context()) }, "holdfast.wait", "deadlock", "deadlock"},
		"a timeout": {func(w *world) {
			w.lock(w.Context(), w.mutex())
			ctx, cancel := context.WithTimeoutCause(w.ctx, time.Minute, errors.New("too late"))
			defer cancel()
			w.mutex().Lock(ctx)
		}, "holdfast.wait", "timeout", "timeout"},
		"a caller that gives up": {func(w *world) {
			ctx, cancel := context.WithCancelCause(w.ctx)
			cancel(errors.New("no longer wanted"))
			w.mutex().Lock(ctx)
		}, "holdfast.wait", "canceled", "canceled"},
		"a bad path": {func(w *world) {
			holdfast.NewMutex(w.c, "l", holdfast.WithObserver(w.tracer.Observer())).Lock(w.ctx)
		}, "holdfast.wait", "error", "error"},
		"a loss": {func(w *world) {
			h := w.lock(w.ctx, w.mutex())
			w.srv.Expire(h.SessionID())
			<-h.Lost()
			synctest.Wait()
			if len(w.ended("holdfast.hold")) != 1 {
				w.Error("the span of a lost hold goes on")
			}
			h.Unlock()
		}, "holdfast.hold", "", "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				tt.story(w)
				spans := w.ended(tt.span)
				if len(spans) == 0 {
					t.Fatalf("no span %s", tt.span)
				}
				s := spans[len(spans)-1]
				got := attributes(s)
				if r, _ := got["holdfast.lock.result"].(string); r != tt.result {
					t.Errorf("result %q; want %q", r, tt.result)
				}
				if kind, _ := got["error.type"].(string); kind != tt.kind || (s.Status().Code == codes.Error) != (kind != "") {
					t.Errorf("error.type %q, status %v; want %q", kind, s.Status(), tt.kind)
				}
			})
		})
	}
}

// The span of a lock in a lock is that of the inner call, and the outer one goes on.
func TestNestedLocks(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		outer := w.lock(w.ctx, w.mutex())
		s := holdfast.NewSemaphore(w.c, "/s", 3, holdfast.WithObserver(w.tracer.Observer()))
		inner, err := s.Acquire(outer.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := inner.Unlock(); err != nil {
			t.Fatal(err)
		}
		first := w.one("holdfast.hold")
		if n := attributes(first)["holdfast.lock.permits"]; n != int64(2) {
			t.Errorf("%v permits", n)
		}
		if err := outer.Unlock(); err != nil {
			t.Fatal(err)
		}
		last := w.ended("holdfast.hold")[1]
		if first.Parent().SpanID() != last.SpanContext().SpanID() {
			t.Error("the inner hold is not a child of the outer one")
		}
	})
}

// A wait that lasts is linked to the trace of the holder.
func TestLinkToTheHolder(t *testing.T) {
	holder := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled, Remote: true})
	labels := holdfast.WithLabels(Labels(trace.ContextWithSpanContext(t.Context(), holder), map[string]string{"team": "a"}))
	mutex := func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
		return holdfast.NewMutex(c, "/l", opts...)
	}
	for name, tt := range map[string]struct {
		lock   func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker
		holder holdfast.Option
		wait   time.Duration
		want   int
	}{
		"a mutex": {mutex, labels, 2 * time.Second, 1},
		"a node lock": {func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return holdfast.NewNodeLock(c, "/l", opts...)
		}, labels, 2 * time.Second, 1},
		"another layout": {func(c *zk.Client, opts ...holdfast.Option) holdfast.Locker {
			return mutex(c, append(opts, holdfast.WithLayout(layout.Named("n")))...)
		}, labels, 2 * time.Second, 1},
		"a short wait":           {mutex, labels, patience / 2, 0},
		"a holder with no trace": {mutex, holdfast.WithReason("none"), 2 * time.Second, 0},
		"data of a program":      {mutex, holdfast.WithValue([]byte(`["x"]`)), 2 * time.Second, 0},
		"a malformed trace":      {mutex, holdfast.WithLabels(map[string]string{"traceparent": "00-x"}), 2 * time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				first := w.lock(t.Context(), tt.lock(w.srv.Client(), tt.holder))
				time.AfterFunc(tt.wait, func() { first.Unlock() })
				h := w.lock(w.ctx, tt.lock(w.c, labels, holdfast.WithObserver(w.tracer.Observer())))
				defer h.Unlock()
				links := w.one("holdfast.wait").Links()
				if len(links) != tt.want {
					t.Fatalf("%d links; want %d", len(links), tt.want)
				}
				for _, l := range links {
					if !l.SpanContext.Equal(holder) {
						t.Errorf("a link to %v; want %v", l.SpanContext, holder)
					}
				}
			})
		})
	}
}

func TestLabels(t *testing.T) {
	given := map[string]string{"team": "a"}
	if got := Labels(t.Context(), given); !maps.Equal(got, given) {
		t.Errorf("%v without a trace", got)
	}
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	want := map[string]string{"team": "a", "traceparent": "00-01000000000000000000000000000000-0200000000000000-00"}
	if got := Labels(ctx, given); !maps.Equal(got, want) || len(given) != 1 {
		t.Errorf("%v; want %v", got, want)
	}
}

func TestSpansOfRequests(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		if _, _, err := w.c.Create(w.ctx, "/a", nil, zk.Persistent); err != nil {
			t.Fatal(err)
		}
		w.c.Get(w.ctx, "/b")
		w.c.Exists(t.Context(), "/c") // no span in its context
		create, get := w.one("create"), w.one("get")
		if len(w.ended("exists")) > 0 {
			t.Error("a request without a span in its context is traced")
		}
		for _, s := range []sdk.ReadOnlySpan{create, get} {
			if s.SpanKind() != trace.SpanKindClient || s.Parent().SpanID() != w.caller.SpanContext().SpanID() {
				t.Errorf("%s: kind %v, parent %v", s.Name(), s.SpanKind(), s.Parent())
			}
			a := attributes(s)
			if a["db.system.name"] != "zookeeper" || a["db.operation.name"] != s.Name() || a["server.address"] == nil {
				t.Errorf("%s has %v", s.Name(), a)
			}
		}
		if a := attributes(create); a["holdfast.zookeeper.path"] != "/a" || a["error.type"] != nil || create.Status().Code != codes.Unset {
			t.Errorf("create has %v, %v", a, create.Status())
		}
		if a := attributes(get); a["db.response.status_code"] != "-101" || a["error.type"] != nil || get.Status().Code != codes.Unset {
			t.Errorf("get has %v, %v", a, get.Status())
		}
	})
}

// The first use of each kind of lock finds no nodes. That is no error.
func TestTheFirstUseOfANameIsNoError(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		observed := holdfast.WithObserver(w.tracer.Observer())
		for _, l := range []holdfast.Locker{
			holdfast.NewMutex(w.c, "/locks/new/mutex", observed), holdfast.NewRWMutex(w.c, "/locks/new/rw", observed).RLocker(),
			holdfast.NewSemaphore(w.c, "/locks/new/semaphore", 2, observed).Locker(1), holdfast.NewNodeLock(w.c, "/locks/new/node", observed),
		} {
			for range 2 {
				h := w.lock(w.ctx, l)
				h.Unlock()
			}
		}
		_, err := once.New(w.c, "/locks/new/once", once.WithLock(observed)).Key("key").Do(w.ctx, func(context.Context) ([]byte, error) { return nil, nil })
		if err != nil {
			t.Fatal(err)
		}
		statuses := make(map[string]bool)
		for _, s := range w.recorder.Ended() {
			if s.Status().Code == codes.Error || attributes(s)["error.type"] != nil {
				t.Errorf("%s has the status %v and %v", s.Name(), s.Status(), attributes(s))
			}
			if code, ok := attributes(s)["db.response.status_code"].(string); ok {
				statuses[code] = true
			}
		}
		if !statuses["-101"] {
			t.Error("no request has found a node missing: the test tests nothing")
		}
	})
}

// The requests of a wait are parts of it.
func TestRequestsOfAWaitAreItsChildren(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		h := w.lock(w.ctx, w.mutex())
		defer h.Unlock()
		wait := w.one("holdfast.wait").SpanContext().SpanID()
		requests := 0
		for _, s := range w.recorder.Ended() {
			if s.SpanKind() == trace.SpanKindClient {
				requests++
				if s.Parent().SpanID() != wait {
					t.Errorf("%s is no child of the wait", s.Name())
				}
			}
		}
		if requests == 0 {
			t.Error("no request of the wait is traced")
		}
	})
}

// A request has a start, and an end that is later.
func TestTimesOfARequest(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	ctx, _ := provider.Tracer("program").Start(t.Context(), "caller")
	New(WithTracerProvider(provider)).Trace().RequestDone(ctx, "sync", "", time.Hour, zk.ErrTooLarge)
	s := recorder.Ended()[0]
	if took := s.EndTime().Sub(s.StartTime()); took != time.Hour {
		t.Errorf("it took %v", took)
	}
	if a := attributes(s); a["error.type"] != "_OTHER" || len(a) != 3 {
		t.Errorf("it has %v", a)
	}
}

func TestServerAttributes(t *testing.T) {
	for address, want := range map[string]string{
		"zk1:2181":         "server.address=zk1 server.port=2181",
		"[::1]:2181":       "server.address=::1 server.port=2181",
		"zk1":              "server.address=zk1",
		"unix:///run/sock": "server.address=/run/sock",
	} {
		var got []string
		for _, a := range serverAttributes(address) {
			got = append(got, string(a.Key)+"="+a.Value.String())
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: %s; want %s", address, got, want)
		}
	}
}

// What a program does to the span in the Hold's Context it does to the span of the hold, but for its end.
func TestTheSpanOfAHoldIsThatOfItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		h := w.lock(w.ctx, w.mutex())
		s := trace.SpanFromContext(h.Context())
		s.SetAttributes(attribute.Bool("mine", true))
		s.AddEvent("half")
		s.RecordError(errors.New("an error"))
		s.AddLink(trace.Link{SpanContext: w.caller.SpanContext()})
		s.SetStatus(codes.Error, "failed")
		s.SetName("renamed")
		s.End()
		if !s.IsRecording() || s.TracerProvider() == nil {
			t.Error("the span has ended")
		}
		if err := h.Unlock(); err != nil {
			t.Fatal(err)
		}
		hold := w.one("renamed")
		if attributes(hold)["mine"] != true || len(hold.Events()) != 2 || len(hold.Links()) != 1 || hold.Status().Description != "failed" {
			t.Errorf("%v, %v, %v, %v", attributes(hold), hold.Events(), hold.Links(), hold.Status())
		}
	})
}

// Below a span that the sampler has dropped there are no spans, also if a lock around it has some. A span of
// another process is left to the sampler.
func TestDroppedSpansHaveNoDescendants(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		_, unsampled := sdk.NewTracerProvider(sdk.WithSampler(sdk.NeverSample())).Tracer("program").Start(t.Context(), "caller")
		unlock := func(h *holdfast.Hold) {
			if err := h.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		unlock(w.lock(trace.ContextWithSpan(t.Context(), unsampled), w.mutex()))
		if n := len(w.recorder.Ended()); n != 0 {
			t.Errorf("%d spans below a dropped one", n)
		}
		outer := w.lock(w.ctx, w.mutex())
		inner := w.lock(trace.ContextWithSpan(outer.Context(), unsampled), holdfast.NewMutex(w.c, "/inner", holdfast.WithObserver(w.tracer.Observer())))
		unlock(inner)
		if n := len(w.ended("holdfast.hold")); n != 0 {
			t.Error("the end of the inner lock ended the span of the outer one")
		}
		unlock(outer)
		if path := attributes(w.one("holdfast.hold"))["holdfast.lock.path"]; path != "/l" {
			t.Errorf("the hold of %v has a span", path)
		}
		remote := trace.ContextWithRemoteSpanContext(t.Context(), unsampled.SpanContext())
		always := New(WithTracerProvider(sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()), sdk.WithSpanProcessor(w.recorder))))
		unlock(w.lock(remote, holdfast.NewMutex(w.c, "/remote", holdfast.WithObserver(always.Observer()))))
		if n := len(w.ended("holdfast.hold")); n != 2 {
			t.Errorf("%d holds have spans; want that of a span of another process, too", n)
		}
	})
}
