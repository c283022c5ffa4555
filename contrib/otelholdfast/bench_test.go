package otelholdfast

import (
	"slices"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// BenchmarkOverhead measures what traces add to lock and unlock, on a server in memory: traces that are not
// sampled, traces of which one in ten is sampled, and sampled ones. Nobody exports them. Two clients of one server,
// one without hooks and one with them, run in turns, so whatever else the machine does meets both. The program's own
// span is around both. It reports the median of the pairs and their quartiles, in percent of the time without
// hooks. For a figure worth keeping:
//
//	go test -run '^$' -bench Overhead -benchtime 20000x -count 10
func BenchmarkOverhead(b *testing.B) {
	for _, bb := range []struct {
		name    string
		sampler sdk.Sampler
	}{
		{"unsampled", sdk.NeverSample()}, {"one in ten", sdk.TraceIDRatioBased(0.1)}, {"sampled", sdk.AlwaysSample()},
	} {
		b.Run(bb.name, func(b *testing.B) {
			srv := zktest.NewServer()
			defer srv.Close()
			// The parent's decision is that of all below it, as in the default of the SDK.
			provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.ParentBased(bb.sampler)))
			traces := New(WithTracerProvider(provider))
			program := provider.Tracer("program")
			cycle := func(path string, trace *zk.Trace, opts ...holdfast.Option) func() {
				cfg := srv.Config()
				cfg.Trace = trace
				c, err := zk.Dial(b.Context(), cfg)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { c.Close() })
				m := holdfast.NewMutex(c, path, opts...)
				return func() {
					ctx, span := program.Start(b.Context(), "caller")
					defer span.End()
					h, err := m.Lock(ctx)
					if err == nil {
						err = h.Unlock()
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			pairs(b, cycle("/jobs/a", nil), cycle("/jobs/b", traces.Trace(), holdfast.WithObserver(traces.Observer())))
		})
	}
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
