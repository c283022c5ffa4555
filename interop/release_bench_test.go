//go:build linux

package interop

import (
	"fmt"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

// BenchmarkRelease compares Hold.Release with Unlock: 64 locks one after the other, through one session, in
// turns until the rates stand still, and then for -benchtime pairs.
//
//	go test -run '^$' -bench '^BenchmarkRelease$' -benchtime 10x
func BenchmarkRelease(b *testing.B) {
	ours, err := peers.StartHoldfast(b.Context(), holdfastBin(b), b.TempDir())
	closing(b, ours, err)
	one, err := peers.StartZooKeeper(b.Context(), b.TempDir(), peers.ZooKeeperConfig{Settings: []string{"preAllocSize=65536"}})
	closing(b, one, err)
	for _, s := range []struct{ name, url string }{{"one-ZooKeeper", one.URL()}, {"holdfast-serve", ours.URL()}} {
		b.Run(s.name, func(b *testing.B) {
			c := dialURL(b, s.url, func(cfg *zk.Config) { cfg.SessionTimeout = benchTimeout })
			var locks []*holdfast.Mutex
			for i := range 64 {
				locks = append(locks, holdfast.NewMutex(c, fmt.Sprintf("/released/%d", i)))
			}
			rate := func(end func(*holdfast.Hold) error) float64 {
				const rounds = 10
				began := time.Now()
				for range rounds {
					for _, l := range locks {
						h, err := l.Lock(b.Context())
						must(b, err)
						must(b, end(h))
					}
				}
				return rounds * float64(len(locks)) / time.Since(began).Seconds()
			}
			pair := func() (unlock, release float64) { return rate((*holdfast.Hold).Unlock), rate((*holdfast.Hold).Release) }
			for best, stale := 0.0, 0; stale < 3; {
				unlock, release := pair()
				if stale++; unlock+release > 1.05*best {
					best, stale = unlock+release, 0
				}
			}
			var unlocks, releases, ratios []float64
			for b.Loop() {
				unlock, release := pair()
				unlocks, releases, ratios = append(unlocks, unlock), append(releases, release), append(ratios, release/unlock)
			}
			b.ReportMetric(median(unlocks), "unlocks/s")
			b.ReportMetric(median(releases), "releases/s")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}
