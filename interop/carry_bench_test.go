//go:build linux

package interop

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

// BenchmarkCarry is the basis of docs/explanation/scale.md. It measures how many locks, handoffs and quorum
// probes per second `holdfast serve`, one Apache ZooKeeper and an ensemble of three carry on
// this machine. It also measures how much of holdfast serve's memory a session and a held lock
// take.
//
//	go test -run '^$' -bench Carry -benchtime 1x
func BenchmarkCarry(b *testing.B) {
	production := []string{"-Xmx1000m", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4"}
	ours, err := peers.StartHoldfast(b.Context(), holdfastBin(b), b.TempDir())
	closing(b, ours, err)
	one, err := peers.StartZooKeeper(b.Context(), b.TempDir(), peers.ZooKeeperConfig{Flags: production, Settings: []string{"preAllocSize=65536"}})
	closing(b, one, err)
	three, err := peers.StartZooKeeper(b.Context(), b.TempDir(), peers.ZooKeeperConfig{Servers: 3, Flags: production, Settings: []string{"preAllocSize=65536"}})
	closing(b, three, err)
	for _, s := range []struct {
		name, url string
		pid       int
	}{{"holdfast-serve", ours.URL(), ours.Pid()}, {"one-ZooKeeper", one.URL(), one.Pid(0)}, {"three-ZooKeepers", three.URL(), three.Pid(0)}} {
		b.Run(s.name, func(b *testing.B) {
			var clients []*zk.Client
			for range 16 {
				clients = append(clients, dialURL(b, s.url, func(cfg *zk.Config) { cfg.SessionTimeout = benchTimeout }))
			}
			for b.Loop() {
				growthOfLocks(b, clients[0], 64, 64, 2000) // warms up
				b.ReportMetric(median(growthOfLocks(b, clients[0], 64, 64, 3000)), "cycles/s-of-64-locks")
				again, _, _ := growthOfWaiters(b, s.pid, clients, 16)
				b.ReportMetric(median(again), "handoffs/s-of-one-lock")
				if s.url != ours.URL() { // it is a single server, where an answered ping is proof
					b.ReportMetric(probesPerSecond(b, clients), "probes/s")
				}
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	b.Run("memory-of-holdfast-serve", func(b *testing.B) {
		for b.Loop() {
			const sessions, locks = 1000, 10_000
			before := residentKiB(b, ours.Pid())
			idle := make([]*zk.Client, sessions)
			must(b, eachOf(sessions, func(i int) (err error) {
				idle[i], err = zk.Dial(b.Context(), zk.Config{Servers: []string{ours.Addr()}, SessionTimeout: herdTimeout})
				return err
			}))
			with := residentKiB(b, ours.Pid())
			holds := make([]*holdfast.Hold, locks)
			must(b, eachOf(locks, func(i int) (err error) {
				holds[i], err = holdfast.NewMutex(idle[i%sessions], fmt.Sprintf("/carry/%d", i)).Lock(b.Context())
				return err
			}))
			b.ReportMetric(float64(with-before)/sessions, "KiB/session")
			b.ReportMetric(float64(residentKiB(b, ours.Pid())-with)/locks, "KiB/held-lock")
			for _, c := range idle {
				must(b, c.Close())
			}
		}
		b.ReportMetric(0, "ns/op")
	})
}

// probesPerSecond returns how many transactions that only check a node are committed. A
// holder's session sends one in every probe period.
func probesPerSecond(b *testing.B, clients []*zk.Client) float64 {
	path, _, err := clients[0].Create(b.Context(), "/probed-", nil, zk.EphemeralSequential)
	must(b, err)
	const atATime, each = 8, 60 // per client
	began := time.Now()
	var all sync.WaitGroup
	for _, c := range clients {
		for range atATime {
			all.Go(func() {
				for range each {
					if _, err := c.Multi(b.Context(), zk.CheckOp(path, zk.AnyVersion)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
	return float64(len(clients)*atATime*each) / time.Since(began).Seconds()
}
