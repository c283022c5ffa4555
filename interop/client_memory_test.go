//go:build linux

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

// BenchmarkClientMemory measures what idle clients cost this process, heap and stacks together:
// a session with its connection, and a thousand watches. Both clients are connected to the same
// server, which is a separate process.
//
//	go test -run '^$' -bench ClientMemory -benchtime 3x
func BenchmarkClientMemory(b *testing.B) {
	server := oneHoldfast.get(b)
	url, addr := server.URL(), strings.TrimPrefix(server.URL(), "zk://")
	b.Run("sessions=900", func(b *testing.B) {
		const n = 900 // the server accepts a thousand from one address
		compareMemory(b, n, "B/session",
			func() (fill, undo func()) {
				clients := make([]*zk.Client, n)
				return func() { inParallel(16, n, func(i int) { clients[i] = connectOurs(b, url) }) },
					func() { inParallel(16, n, func(i int) { clients[i].Close() }) }
			},
			func() (fill, undo func()) {
				clients := make([]*rival.Conn, n)
				return func() { inParallel(16, n, func(i int) { clients[i] = connectTheirs(b, addr) }) },
					func() { inParallel(16, n, func(i int) { clients[i].Close() }) }
			})
	})
	b.Run("watches=50000", func(b *testing.B) {
		const n = 50_000
		path := func(i int) string { return fmt.Sprintf("/watched/%d", i) }
		compareMemory(b, n/1000, "B/1000-watches",
			func() (fill, undo func()) {
				c, watches := connectOurs(b, url), make([]*zk.Watch, n)
				return func() {
						inParallel(64, n, func(i int) {
							var err error
							if _, _, watches[i], err = c.ExistsW(b.Context(), path(i)); err != nil {
								b.Error(err)
							}
						})
					}, func() {
						c.Close()
						runtime.KeepAlive(watches)
					}
			},
			func() (fill, undo func()) {
				c, watches := connectTheirs(b, addr), make([]<-chan rival.Event, n)
				return func() {
						inParallel(64, n, func(i int) {
							var err error
							if _, _, watches[i], err = c.ExistsW(path(i)); err != nil {
								b.Error(err)
							}
						})
					}, func() {
						c.Close()
						runtime.KeepAlive(watches)
					}
			})
	})
}

// compareMemory reports the medians, over the rounds, of the memory that fill adds per unit.
func compareMemory(b *testing.B, units int, unit string, ours, theirs func() (fill, undo func())) {
	var our, their []float64
	for b.Loop() {
		for _, side := range []struct {
			prepare func() (fill, undo func())
			bytes   *[]float64
		}{{ours, &our}, {theirs, &their}} {
			fill, undo := side.prepare()
			before := memoryInUse()
			fill()
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

// memoryInUse returns the size of this process's heap and stacks, without garbage.
func memoryInUse() int64 {
	time.Sleep(500 * time.Millisecond) // goroutines that were busy just now are idle after it
	runtime.GC()
	runtime.GC() // frees what pools held in reserve
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
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

// connectOurs and connectTheirs leave closing to the caller. dialURL and connectRival would
// keep every client until the benchmark ends.
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
