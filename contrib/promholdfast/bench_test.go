package promholdfast

import (
	"slices"
	"testing"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// BenchmarkOverhead measures what the metrics add to lock and unlock, on a server in memory. Two clients of one
// server, one without metrics and one with them, run in turns, so whatever else the machine does meets both. It
// reports the median of the pairs and their quartiles, in percent of the time without metrics. For a figure
// worth keeping:
//
//	go test -run '^$' -bench Overhead -benchtime 20000x -count 10
func BenchmarkOverhead(b *testing.B) {
	srv := zktest.NewServer()
	defer srv.Close()
	col, err := New("/jobs/{*}")
	if err != nil {
		b.Fatal(err)
	}
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
			h, err := m.Lock(b.Context())
			if err == nil {
				err = h.Unlock()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	pairs(b, cycle("/jobs/a", nil), cycle("/jobs/b", col.Trace(), holdfast.WithObserver(col.Observer())))
}

// pairs runs each function b.N times, in turns of some hundred calls, and reports how much longer with takes.
func pairs(b *testing.B, without, with func()) {
	const turn = 20
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
