//go:build linux

package interop

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/interop/plot"
	"holdfast/zk"
)

var (
	growthMost = flag.Int("growth-most", 1000, "locks and waiters up to which BenchmarkGrowth goes")
	growthDoc  = flag.String("growth-doc", "", "directory whose scale.md gets the table of BenchmarkGrowth, and its plot")
)

// growthWindows is how many times each rate is measured; the result is the median.
const growthWindows = 5

// A curve is a rate for 1, 10, 100… items.
type curve struct {
	name   string
	at     []int
	rates  []float64
	spread []float64 // between the best and the worst window, relative to the median
}

func (c *curve) add(b *testing.B, n int, rates []float64) {
	m := median(rates)
	c.at, c.rates, c.spread = append(c.at, n), append(c.rates, m), append(c.spread, (slices.Max(rates)-slices.Min(rates))/m)
	measured(b, "%s: %s: %.0f a second, of %.0f", c.name, thousands(n), m, rates)
}

// BenchmarkGrowth measures how many cycles of lock and unlock `holdfast serve` carries as the
// number of locks grows, and as the queue of one lock grows.
//
//	go test -run '^$' -bench Growth -benchtime 1x -growth-most 10000 -growth-doc ../docs/explanation
func BenchmarkGrowth(b *testing.B) {
	server, err := peers.StartHoldfast(b.Context(), holdfastBin(b), b.TempDir())
	closing(b, server, err)
	var clients []*zk.Client
	for range 16 {
		clients = append(clients, dialURL(b, server.URL(), func(cfg *zk.Config) { cfg.SessionTimeout = benchTimeout }))
	}
	alone := &curve{name: "locks, one at a time"}
	many := &curve{name: "locks, 64 at a time"}
	cycles := &curve{name: "waiters, who queue again"}
	drain := &curve{name: "waiters, who do not"}
	for b.Loop() {
		for n := 1; n <= *growthMost; n *= 10 {
			alone.add(b, n, growthOfLocks(b, clients[0], n, 1, 300))
			if n >= 100 {
				many.add(b, n, growthOfLocks(b, clients[0], n, 64, 3000))
			}
		}
		for n := 1; n <= *growthMost; n *= 10 {
			before := residentKiB(b, server.Pid())
			again, once, after := growthOfWaiters(b, server.Pid(), clients, n)
			cycles.add(b, n, again)
			if n >= 100 {
				drain.add(b, n, once)
			}
			measured(b, "%s waiters: the server's memory goes from %d to %d KiB", thousands(n), before, after)
		}
	}
	all := []*curve{alone, many, cycles, drain}
	for _, c := range all {
		b.ReportMetric(c.rates[len(c.rates)-1]/c.rates[0], strings.NewReplacer(",", "", " ", "-").Replace(c.name)+"-last/first")
	}
	b.ReportMetric(0, "ns/op")
	if *growthDoc != "" {
		must(b, writeGrowth(*growthDoc, all))
	}
}

// growthOfLocks returns how many cycles per second one session does over n locks in turn,
// atATime at a time.
func growthOfLocks(b *testing.B, c *zk.Client, n, atATime, perWindow int) []float64 {
	path := func(i int) string { return fmt.Sprintf("/growth/locks-%d/%d", n, i%n) }
	cycle := func(i int) error {
		h, err := holdfast.NewMutex(c, path(i)).Lock(b.Context())
		if err != nil {
			return err
		}
		return h.Unlock()
	}
	must(b, eachOf(n, cycle)) // makes the parents of the locks' queues
	rates := make([]float64, growthWindows)
	turn := 0
	for w := range rates {
		began := time.Now()
		var all sync.WaitGroup
		for g := range atATime {
			all.Go(func() {
				for i := g; i < perWindow; i += atATime {
					if err := cycle(turn + i); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		rates[w] = float64(perWindow) / time.Since(began).Seconds()
		turn += perWindow
	}
	return rates
}

// growthOfWaiters lets n clients wait for one lock. again is the rate of turns while each
// holder queues again, and once the rate while the queue empties. memory is the server's, in
// KiB, when all waited.
func growthOfWaiters(b *testing.B, pid int, clients []*zk.Client, n int) (again, once []float64, memory int) {
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	path := fmt.Sprintf("/growth/waiters-%d", n)
	first, err := holdfast.NewMutex(clients[0], path).Lock(b.Context())
	must(b, err)
	turns := make(chan struct{})
	last := make(chan struct{}) // closed: nobody queues again
	var failed sync.Once
	var all sync.WaitGroup
	for i := range n {
		m := holdfast.NewMutex(clients[i%len(clients)], path)
		all.Go(func() {
			for {
				h, err := m.Lock(b.Context())
				if err != nil {
					failed.Do(func() { b.Error(err) }) // otherwise ten thousand report the same
					return
				}
				turns <- struct{}{}
				if err := h.Unlock(); err != nil {
					b.Error(err)
				}
				select {
				case <-last:
					return
				default:
				}
			}
		})
		if i%64 == 63 {
			// Each reads the list when it joins. If all did so at once, a session would have so
			// much to read that later answers would be too late to prove it.
			must(b, awaitChildren(ctx, clients[i%len(clients)], path, i-32))
		}
	}
	must(b, awaitChildren(ctx, clients[0], path, n+1))
	memory = residentKiB(b, pid)
	window := func(turn int) float64 {
		began := time.Now()
		for range turn {
			<-turns
		}
		return float64(turn) / time.Since(began).Seconds()
	}
	must(b, first.Unlock())
	window(min(n, 50)) // those that joined when the queue was short
	for range growthWindows {
		again = append(again, window(200))
	}
	close(last)
	// Earlier holders may be queueing again.
	for range growthWindows {
		once = append(once, window(n/growthWindows*9/10))
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for {
		select {
		case <-turns:
		case <-done:
			return again, once, memory
		}
	}
}

// residentKiB returns the resident memory of a process.
func residentKiB(b *testing.B, pid int) int {
	return int((&benchSide{pid: pid}).resident(b) * 1024)
}

func writeGrowth(dir string, curves []*curve) error {
	var table strings.Builder
	table.WriteString("| cycles per second |")
	for _, n := range curves[0].at {
		table.WriteString(" " + thousands(n) + " |")
	}
	table.WriteString(" last ÷ first |\n|---|" + strings.Repeat("---:|", len(curves[0].at)+1) + "\n")
	panel := plot.Panel{Title: "cycles per second on holdfast serve", X: "locks, or waiters on one lock", Y: "cycles per second"}
	for _, c := range curves {
		line := plot.Line{Name: c.name}
		cells := make([]string, len(curves[0].at))
		for i, n := range c.at {
			cells[slices.Index(curves[0].at, n)] = fmt.Sprintf("%s ± %.0f %%", thousands(int(c.rates[i])), 50*c.spread[i])
			line.Points = append(line.Points, plot.Point{X: float64(n), Y: c.rates[i]})
		}
		fmt.Fprintf(&table, "| %s | %s | %.2f |\n", c.name, strings.Join(cells, " | "), c.rates[len(c.rates)-1]/c.rates[0])
		panel.Lines = append(panel.Lines, line)
	}
	if err := plot.Write(filepath.Join(dir, "scale.svg"), panel); err != nil {
		return err
	}
	return replaceMeasured(filepath.Join(dir, "scale.md"), "growth", table.String())
}
