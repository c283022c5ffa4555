//go:build linux

package interop

import (
	"sync/atomic"
	"testing"
	"time"

	rival "github.com/go-zookeeper/zk"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

// BenchmarkKeep measures WithKeep on Apache's server. Each of the -benchtime rounds takes the contestants in turns.
//
// alone: one session locks and unlocks, for 0.5 s each: with WithKeep, without it, and go-zookeeper.
//
// contended: one session locks and unlocks all the time, for 2 s each with WithKeep and without it. Another session, which
// does not use WithKeep, takes the same lock every 10 ms. kept-lock-µs and plain-lock-µs are the median times of its Lock,
// from the call to the Hold. free-lock-µs is that of a Lock that finds nobody, which is the time until a node is made.
// plain-handoff-µs is the time from Unlock to the Hold of a session that has waited already. A kept lock is handed over
// after the other's node is made, so handoff-ratio is (kept-lock − free-lock) / plain-handoff.
//
//	go test -run '^$' -bench '^BenchmarkKeep$' -benchtime 5x
func BenchmarkKeep(b *testing.B) {
	server, err := peers.StartZooKeeper(b.Context(), b.TempDir(), peers.ZooKeeperConfig{Settings: []string{"preAllocSize=65536"}})
	closing(b, server, err)
	dial := func() *zk.Client {
		return dialURL(b, server.URL(), func(cfg *zk.Config) { cfg.SessionTimeout = benchTimeout })
	}
	lockAndUnlock := func(l holdfast.Locker) {
		h, err := l.Lock(b.Context())
		must(b, err)
		must(b, h.Unlock())
	}
	rate := func(turn func()) float64 {
		turns := 0.0
		began := time.Now()
		for ; time.Since(began) < 500*time.Millisecond; turns++ {
			turn()
		}
		return turns / time.Since(began).Seconds()
	}
	keep := holdfast.WithKeep(10 * time.Second)

	b.Run("alone", func(b *testing.B) {
		c := dial()
		kept, plain := holdfast.NewMutex(c, "/kept/alone", keep), holdfast.NewMutex(c, "/kept/plain")
		theirs := rival.NewLock(connectRival(b, server.Addrs(), benchTimeout), "/kept/theirs", rival.WorldACL(rival.PermAll))
		var ours, without, others, ratios []float64
		for b.Loop() {
			ours = append(ours, rate(func() { lockAndUnlock(kept) }))
			without = append(without, rate(func() { lockAndUnlock(plain) }))
			others = append(others, rate(func() {
				must(b, theirs.Lock())
				must(b, theirs.Unlock())
			}))
			ratios = append(ratios, ours[len(ours)-1]/others[len(others)-1])
		}
		b.ReportMetric(median(ours), "kept/s")
		b.ReportMetric(median(without), "plain/s")
		b.ReportMetric(median(others), "go-zookeeper/s")
		b.ReportMetric(median(ratios), "ratio")
		b.ReportMetric(0, "ns/op")
	})

	b.Run("contended", func(b *testing.B) {
		first, second := dial(), dial()
		// free returns the median time of a Lock that finds nobody.
		free := func() float64 {
			l := holdfast.NewMutex(second, "/free/contended")
			var took []float64
			for range 100 {
				asked := time.Now()
				h, err := l.Lock(b.Context())
				must(b, err)
				took = append(took, time.Since(asked).Seconds()*1e6)
				must(b, h.Unlock())
			}
			return median(took)
		}
		// given returns the median time from Unlock of the first session to the Hold of the second.
		given := func() float64 {
			l, o := holdfast.NewMutex(first, "/given/contended"), holdfast.NewMutex(second, "/given/contended")
			var took []float64
			for range 100 {
				h, err := l.Lock(b.Context())
				must(b, err)
				held := make(chan time.Time, 1)
				go func() {
					h, err := o.Lock(b.Context())
					held <- time.Now()
					if err != nil {
						b.Error(err)
						return
					}
					h.Unlock()
				}()
				time.Sleep(10 * time.Millisecond) // until it waits
				unlocked := time.Now()
				must(b, h.Unlock())
				took = append(took, (<-held).Sub(unlocked).Seconds()*1e6)
			}
			return median(took)
		}
		// handoff returns the median time of the second session's Lock, and the rate of the first session.
		handoff := func(path string, opts ...holdfast.Option) (time.Duration, float64) {
			m, o := holdfast.NewMutex(first, path, opts...), holdfast.NewMutex(second, path)
			var stop atomic.Bool
			turns := 0.0
			ended := make(chan struct{})
			began := time.Now()
			go func() {
				defer close(ended)
				for ; !stop.Load(); turns++ {
					h, err := m.Lock(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					if err := h.Unlock(); err != nil {
						b.Error(err)
						return
					}
				}
			}()
			var took []float64
			for tick := time.NewTicker(10 * time.Millisecond); time.Since(began) < 2*time.Second; <-tick.C {
				asked := time.Now()
				h, err := o.Lock(b.Context())
				must(b, err)
				took = append(took, float64(time.Since(asked)))
				must(b, h.Unlock())
			}
			stop.Store(true)
			<-ended
			return time.Duration(median(took)), turns / time.Since(began).Seconds()
		}
		var kept, plain, frees, givens, ratios, keptTurns, plainTurns []float64
		for b.Loop() {
			k, kt := handoff("/kept/contended", keep)
			p, pt := handoff("/plain/contended")
			kept, plain = append(kept, k.Seconds()*1e6), append(plain, p.Seconds()*1e6)
			f, g := free(), given()
			frees, givens, ratios = append(frees, f), append(givens, g), append(ratios, (k.Seconds()*1e6-f)/g)
			keptTurns, plainTurns = append(keptTurns, kt), append(plainTurns, pt)
		}
		b.ReportMetric(median(kept), "kept-lock-µs")
		b.ReportMetric(median(plain), "plain-lock-µs")
		b.ReportMetric(median(frees), "free-lock-µs")
		b.ReportMetric(median(givens), "plain-handoff-µs")
		b.ReportMetric(median(ratios), "handoff-ratio")
		b.ReportMetric(median(keptTurns), "kept-turns/s")
		b.ReportMetric(median(plainTurns), "plain-turns/s")
		b.ReportMetric(0, "ns/op")
	})
}
