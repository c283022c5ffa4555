package otelholdfast

import (
	"slices"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// BenchmarkOverhead measures what traces add to lock and unlock, on a server in memory: traces that are not
// sampled, traces of which one in ten is sampled, and sampled ones. Nobody exports them. Two clients of one server,
// one without hooks and one with them, run in turns, so whatever else the machine does meets both. The program's own
// span is around both. "bare spans" is what sampled traces cost at least: as many spans, but with nothing in them,
// and without hooks. It reports the median of the pairs and their quartiles, in percent of the time without hooks. For
// a figure worth keeping:
//
//	go test -run '^$' -bench Overhead -benchtime 20000x -count 10
func BenchmarkOverhead(b *testing.B) {
	for _, bb := range []struct {
		name    string
		sampler sdk.Sampler
		bare    bool
	}{
		{"unsampled", sdk.NeverSample(), false}, {"one in ten", sdk.TraceIDRatioBased(0.1), false},
		{"sampled", sdk.AlwaysSample(), false}, {"bare spans", sdk.AlwaysSample(), true},
	} {
		b.Run(bb.name, func(b *testing.B) {
			srv := zktest.NewServer()
			defer srv.Close()
			// The parent's decision is that of all below it, as in the default of the SDK.
			provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.ParentBased(bb.sampler)))
			program := provider.Tracer("program")
			traces, spans := New(WithTracerProvider(provider)), 0
			if bb.bare {
				traces, spans = nil, spansOfCycle(b, srv)
				defer func() { b.ReportMetric(float64(spans), "spans") }()
			}
			pairs(b, cycle(b, srv, program, "/jobs/a", nil, 0), cycle(b, srv, program, "/jobs/b", traces, spans))
		})
	}
}

// cycle returns a function that locks and unlocks, below a span of program. With traces, they report to it. It also
// makes a number of spans with nothing in them.
func cycle(b *testing.B, srv *zktest.Server, program trace.Tracer, path string, traces *Tracer, spans int) func() {
	cfg := srv.Config()
	var opts []holdfast.Option
	if traces != nil {
		cfg.Trace = traces.Trace()
		opts = append(opts, holdfast.WithObserver(traces.Observer()))
	}
	c, err := zk.Dial(b.Context(), cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	m := holdfast.NewMutex(c, path, opts...)
	return func() {
		ctx, span := program.Start(b.Context(), "caller")
		defer span.End()
		for range spans {
			_, s := program.Start(ctx, "bare")
			s.End()
		}
		h, err := m.Lock(ctx)
		if err == nil {
			err = h.Unlock()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// spansOfCycle returns how many spans the hooks make in one cycle.
func spansOfCycle(b *testing.B, srv *zktest.Server) int {
	recorder := tracetest.NewSpanRecorder()
	provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(recorder))
	f := cycle(b, srv, provider.Tracer("program"), "/jobs/c", New(WithTracerProvider(provider)), 0)
	f() // also makes the directories
	before := len(recorder.Ended())
	f()
	return len(recorder.Ended()) - before - 1
}

// pairs runs each function b.N times, in turns of some hundred calls, and reports how much longer with takes.
func pairs(b *testing.B, without, with func()) {
	const turn = 250 // calls: long enough that the clock and the change of turns do not count
	run := func(f func(), n int) time.Duration {
		began := time.Now()
		for range n {
			f()
		}
		return time.Since(began)
	}
	run(without, turn) // the first calls make the directories, and fill pools
	run(with, turn)
	b.ReportAllocs()
	b.ResetTimer()
	var percent, base, more []float64
	for done := 0; done < b.N; done += turn {
		n := min(turn, b.N-done)
		var t [2]time.Duration
		// The order alternates: the second of a pair may pay for garbage of the first.
		if len(percent)%2 == 0 {
			t[0], t[1] = run(without, n), run(with, n)
		} else {
			t[1], t[0] = run(with, n), run(without, n)
		}
		percent = append(percent, 100*(t[1].Seconds()/t[0].Seconds()-1))
		base = append(base, float64(t[0].Nanoseconds())/float64(n))
		more = append(more, float64((t[1]-t[0]).Nanoseconds())/float64(n))
	}
	b.ReportMetric(0, "ns/op") // of both together says nothing
	quartile := func(of []float64, q int) float64 { slices.Sort(of); return of[(len(of)-1)*q/4] }
	b.ReportMetric(quartile(base, 2), "ns/cycle")
	b.ReportMetric(quartile(more, 2), "ns-more")
	b.ReportMetric(quartile(percent, 1), "%q1")
	b.ReportMetric(quartile(percent, 2), "%overhead")
	b.ReportMetric(quartile(percent, 3), "%q3")
}
