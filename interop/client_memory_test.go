//go:build unix

package interop

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	rival "github.com/go-zookeeper/zk"

	"holdfast/zk"
)

// BenchmarkClientMemory measures what idle clients cost this process, heap and stacks
// together: a session with its connection, and a thousand watches. Both clients are
// connected to the same server, which is a process of its own.
//
//	go test -run '^$' -bench ClientMemory -benchtime 3x
func BenchmarkClientMemory(b *testing.B) {
	server := oneHoldfast.get(b)
	url, addr := server.URL(), strings.TrimPrefix(server.URL(), "zk://")
	b.Run("sessions=1000", func(b *testing.B) {
		const n = 1000
		compareMemory(b, n, "B/session",
			func() (closeAll func()) {
				return many(n, func() func() {
					c := connectOurs(b, url)
					return func() { c.Close() }
				})
			},
			func() func() {
				return many(n, func() func() { return connectTheirs(b, addr).Close })
			})
	})
	b.Run("watches=100000", func(b *testing.B) {
		const n = 100_000
		ours, theirs := connectOurs(b, url), connectTheirs(b, addr)
		defer ours.Close()
		defer theirs.Close()
		round := 0 // paths of its own for each: what is watched already would cost less
		compareMemory(b, n/1000, "B/1000-watches",
			func() func() {
				round++
				watches := make([]*zk.Watch, n)
				inParallel(64, n, func(i int) {
					_, _, w, err := ours.ExistsW(b.Context(), fmt.Sprintf("/ours/%d/%d", round, i))
					if err != nil {
						b.Error(err)
						return
					}
					watches[i] = w
				})
				return func() {
					for _, w := range watches {
						if w != nil {
							w.Stop()
						}
					}
				}
			},
			func() func() {
				watches := make([]<-chan rival.Event, n)
				inParallel(64, n, func(i int) {
					_, _, w, err := theirs.ExistsW(fmt.Sprintf("/theirs/%d/%d", round, i))
					if err != nil {
						b.Error(err)
						return
					}
					watches[i] = w
				})
				return func() { runtime.KeepAlive(watches) } // it cannot let go of one
			})
	})
}

// compareMemory reports the medians, over the rounds, of what make adds per unit.
func compareMemory(b *testing.B, units int, unit string, ours, theirs func() (undo func())) {
	var our, their []float64
	for b.Loop() {
		for _, side := range []struct {
			make  func() func()
			bytes *[]float64
		}{{ours, &our}, {theirs, &their}} {
			before := memoryInUse()
			undo := side.make()
			used := memoryInUse() - before
			undo()
			*side.bytes = append(*side.bytes, float64(used)/float64(units))
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(our), "ours-"+unit)
	b.ReportMetric(median(their), "go-zookeeper-"+unit)
	b.ReportMetric(median(their)/median(our), "ratio")
}

// memoryInUse is what this process has on its heap and its stacks, garbage apart.
func memoryInUse() int64 {
	time.Sleep(500 * time.Millisecond) // goroutines that have just been busy are idle now
	runtime.GC()
	runtime.GC() // what pools held in reserve
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// many calls connect n times, some at the same time, and returns what undoes it all.
func many(n int, connect func() (undo func())) func() {
	undo := make([]func(), n)
	inParallel(16, n, func(i int) { undo[i] = connect() })
	return func() { inParallel(16, n, func(i int) { undo[i]() }) }
}

func inParallel(goroutines, n int, do func(i int)) {
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n; i += goroutines {
				do(i)
			}
		})
	}
	wg.Wait()
}

// connectOurs and connectTheirs leave the closing to the caller; dialURL and connectRival
// would keep every client until the benchmark ends.
func connectOurs(b *testing.B, url string) *zk.Client {
	cfg, err := zk.ParseURL(url)
	if err != nil {
		b.Fatal(err)
	}
	cfg.SessionTimeout = benchTimeout
	ctx, cancel := context.WithTimeout(b.Context(), stepTime)
	defer cancel()
	c, err := zk.Dial(ctx, cfg)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func connectTheirs(b *testing.B, addr string) *rival.Conn {
	c, events, err := rival.Connect([]string{addr}, benchTimeout, rival.WithLogInfo(false), rival.WithLogger(silentLogger{}))
	if err != nil {
		b.Fatal(err)
	}
	giveUp := time.After(stepTime)
	for {
		select {
		case e := <-events:
			if e.State == rival.StateHasSession {
				return c
			}
		case <-giveUp:
			b.Fatalf("go-zookeeper has no session on %s", addr)
		}
	}
}
