//go:build linux

package interop

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/interop/plot"
	"holdfast/shards"
	"holdfast/zk"
)

var (
	shardsWorkers = flag.Int("shards-workers", 20, "workers up to which BenchmarkShards goes")
	shardsDoc     = flag.String("shards-doc", "", "directory whose shards.md gets the table of BenchmarkShards, and its plot")
)

const (
	benchShards  = 1000
	shardsSettle = time.Second // of both: how long a change waits for others
	shardsEvents = 6           // joins and leaves at each number of workers
)

// A rebalance is what one join or leave costs.
type rebalance struct {
	stopped  int           // functions that had to stop
	requests int64         // of all clients
	took     time.Duration // until every shard has a worker and every worker its share
	without  time.Duration // the time without a worker, summed over the shards
}

// A crew is workers on shards. Joins and leaves return at once.
type crew interface {
	join(c *zk.Client)
	leave(i int)
	size() int
	close()
}

// An attendance knows which shards have a worker.
type attendance struct {
	mu      sync.Mutex // guards the fields below
	owner   [benchShards]int
	idle    [benchShards]time.Time // since when the shard has no worker
	has     map[int]int            // shards by worker
	busy    int                    // shards with a worker
	stopped int
	without time.Duration
}

func (t *attendance) begin(shard, worker int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.idle[shard].IsZero() {
		t.without += time.Since(t.idle[shard])
	}
	t.owner[shard] = worker
	t.has[worker]++
	t.busy++
}

func (t *attendance) end(shard, worker int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle[shard] = time.Now()
	if t.has[worker]--; t.has[worker] == 0 {
		delete(t.has, worker)
	}
	t.busy--
	t.stopped++
}

// fair reports whether every shard has a worker, and each of m workers its share.
func (t *attendance) fair(m int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy != benchShards || len(t.has) != min(m, benchShards) {
		return false
	}
	for _, n := range t.has {
		if n < benchShards/m || n > (benchShards+m-1)/m {
			return false
		}
	}
	return true
}

// BenchmarkShards measures what joins and leaves cost as the number of workers grows: with package shards, and
// with a group that stops all functions and starts them anew, as Kafka's eager rebalance does.
//
//	go test -run '^$' -bench Shards -benchtime 1x -shards-workers 100 -shards-doc ../docs/explanation
func BenchmarkShards(b *testing.B) {
	server, err := peers.StartHoldfast(b.Context(), holdfastBin(b), b.TempDir())
	closing(b, server, err)
	var requests atomic.Int64
	var clients []*zk.Client
	for range *shardsWorkers + 1 {
		clients = append(clients, dialURL(b, server.URL(), func(cfg *zk.Config) {
			cfg.SessionTimeout = benchTimeout
			cfg.Trace = &zk.Trace{RequestDone: func(context.Context, string, string, time.Duration, error) { requests.Add(1) }}
		}))
	}
	var sizes []int
	for _, n := range []int{2, 5, 10, 20, 50, 100} {
		if n <= *shardsWorkers {
			sizes = append(sizes, n)
		}
	}
	kinds := []struct {
		name string
		of   func(t *attendance) crew
	}{
		{"Shards", func(t *attendance) crew { return &polite{b: b, attendance: t, path: "/plain"} }},
		{"Shards, with handover", func(t *attendance) crew {
			return &polite{b: b, attendance: t, path: "/handover", opts: []shards.Option{shards.WithHandover(10 * time.Second)}}
		}},
		{"revoke all, assign all", func(t *attendance) crew { return newEager(b, t) }},
	}
	results := make([][][]rebalance, len(kinds)) // by kind and size
	for b.Loop() {
		for k, kind := range kinds {
			t := &attendance{has: make(map[int]int)}
			workers := kind.of(t)
			free := slices.Clone(clients) // of the workers that are not there
			used := []*zk.Client(nil)
			rng := rand.New(rand.NewPCG(16, 0))
			join := func() {
				c := free[0]
				free, used = free[1:], append(used, c)
				workers.join(c)
			}
			leave := func() {
				i := rng.IntN(len(used))
				free = append(free, used[i])
				used = slices.Delete(used, i, i+1)
				workers.leave(i)
			}
			results[k] = nil
			for _, size := range sizes {
				for workers.size() < size {
					join()
				}
				awaitFair(b, t, workers.size())
				var all []rebalance
				for range shardsEvents {
					t.mu.Lock()
					t.stopped, t.without = 0, 0
					t.mu.Unlock()
					requests.Store(0)
					began := time.Now()
					// A random walk around the size.
					if n := workers.size(); n == size-1 || n == size && rng.IntN(2) == 0 {
						join()
					} else {
						leave()
					}
					awaitFair(b, t, workers.size())
					took := time.Since(began)
					time.Sleep(200 * time.Millisecond) // requests that nobody waits for
					t.mu.Lock()
					all = append(all, rebalance{t.stopped, requests.Load(), took, t.without})
					t.mu.Unlock()
				}
				results[k] = append(results[k], all)
				r := middle(all)
				measured(b, "%s: %d workers, %d joins and leaves: the median stops %d functions, %d requests, %v until all is balanced, %v without a worker summed over the shards",
					kind.name, size, len(all), r.stopped, r.requests, r.took.Round(time.Millisecond), r.without.Round(time.Millisecond))
			}
			workers.close()
		}
	}
	if *shardsDoc != "" {
		var names []string
		for _, kind := range kinds {
			names = append(names, kind.name)
		}
		if err := writeShards(*shardsDoc, names, sizes, results); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
}

// awaitFair waits until the shards are balanced over m workers.
func awaitFair(b *testing.B, t *attendance, m int) {
	b.Helper()
	for end := time.Now().Add(time.Minute); !t.fair(m); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.mu.Lock()
			defer t.mu.Unlock()
			b.Fatalf("the shards are not balanced over %d workers: %d of %d have one, shares %v", m, t.busy, benchShards, t.has)
		}
	}
}

// middle is the median of each figure.
func middle(all []rebalance) (r rebalance) {
	pick := func(less func(a, b rebalance) int) rebalance {
		sorted := slices.SortedFunc(slices.Values(all), less)
		return sorted[len(sorted)/2]
	}
	r.stopped = pick(func(a, b rebalance) int { return a.stopped - b.stopped }).stopped
	r.requests = pick(func(a, b rebalance) int { return int(a.requests - b.requests) }).requests
	r.took = pick(func(a, b rebalance) int { return int(a.took - b.took) }).took
	r.without = pick(func(a, b rebalance) int { return int(a.without - b.without) }).without
	return r
}

// polite is a crew of package shards.
type polite struct {
	b *testing.B
	*attendance
	path    string
	opts    []shards.Option
	next    int
	runs    []context.CancelFunc
	running sync.WaitGroup
}

func (p *polite) size() int { return len(p.runs) }

func (p *polite) join(c *zk.Client) {
	ctx, cancel := context.WithCancel(context.Background())
	p.next++
	worker := p.next
	p.runs = append(p.runs, cancel)
	p.running.Go(func() {
		s := shards.New(c, p.path, benchShards, append(p.opts, shards.WithSettle(shardsSettle))...)
		err := s.Run(ctx, func(ctx context.Context, s shards.Shard) error {
			p.begin(s.Number, worker)
			<-ctx.Done()
			p.end(s.Number, worker)
			return ctx.Err()
		})
		if ctx.Err() == nil {
			p.b.Error(err)
		}
	})
}

func (p *polite) leave(i int) {
	p.runs[i]()
	p.runs = slices.Delete(p.runs, i, i+1)
}

func (p *polite) close() {
	for _, cancel := range p.runs {
		cancel()
	}
	p.running.Wait()
}

// eager is a crew that stops everything at each change. Its coordinator is in this process and costs no
// requests. Each shard is a Mutex, as in Shards.
type eager struct {
	b *testing.B
	*attendance
	mu      sync.Mutex // guards the fields below
	next    int
	members []eagerWorker
	held    []eagerHold
	changed chan struct{}
	done    chan struct{}
}

type eagerWorker struct {
	number int
	client *zk.Client
}

type eagerHold struct {
	shard, worker int
	hold          *holdfast.Hold
}

func newEager(b *testing.B, t *attendance) crew {
	e := &eager{b: b, attendance: t, changed: make(chan struct{}, 1), done: make(chan struct{})}
	go e.coordinate()
	return e
}

func (e *eager) size() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.members)
}

func (e *eager) change(f func()) {
	e.mu.Lock()
	f()
	e.mu.Unlock()
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

func (e *eager) join(c *zk.Client) {
	e.change(func() {
		e.next++
		e.members = append(e.members, eagerWorker{e.next, c})
	})
}

// leave removes a worker. It stops when the coordinator stops all of them.
func (e *eager) leave(i int) { e.change(func() { e.members = slices.Delete(e.members, i, i+1) }) }

func (e *eager) close() {
	close(e.changed)
	<-e.done
}

func (e *eager) coordinate() {
	defer close(e.done)
	for range e.changed {
		time.Sleep(shardsSettle)
		e.revoke()
		e.mu.Lock()
		members := slices.Clone(e.members)
		e.mu.Unlock()
		var wg sync.WaitGroup
		e.held = make([]eagerHold, benchShards)
		for i := range benchShards {
			w := members[i%len(members)]
			wg.Go(func() {
				h, err := holdfast.NewMutex(w.client, fmt.Sprintf("/eager/%04d", i)).Lock(e.b.Context())
				if err != nil {
					e.b.Error(err)
					return
				}
				e.held[i] = eagerHold{i, w.number, h}
				e.begin(i, w.number)
			})
		}
		wg.Wait()
	}
	e.revoke()
}

// revoke stops all functions, and unlocks all shards.
func (e *eager) revoke() {
	var wg sync.WaitGroup
	for _, h := range e.held {
		if h.hold != nil {
			wg.Go(func() {
				e.end(h.shard, h.worker)
				h.hold.Unlock()
			})
		}
	}
	wg.Wait()
	e.held = nil
}

// writeShards writes the table and the plot.
func writeShards(dir string, names []string, sizes []int, results [][][]rebalance) error {
	var table strings.Builder
	table.WriteString("| median of joins and leaves, at |")
	for _, n := range sizes {
		fmt.Fprintf(&table, " %d workers |", n)
	}
	table.WriteString("\n|---|" + strings.Repeat("---:|", len(sizes)) + "\n")
	figures := []struct {
		name, unit string
		of         func(r rebalance) float64
	}{
		{"functions stopped", "functions", func(r rebalance) float64 { return float64(r.stopped) }},
		{"requests", "requests", func(r rebalance) float64 { return float64(r.requests) }},
		{"ms until balanced", "ms", func(r rebalance) float64 { return float64(r.took.Milliseconds()) }},
		{"s without a worker, summed over the shards", "s", func(r rebalance) float64 { return r.without.Seconds() }},
	}
	var panels []plot.Panel
	for i, f := range figures {
		panel := plot.Panel{Title: f.name + " at a join or a leave", X: "workers", Y: f.unit}
		for k, name := range names {
			line := plot.Line{Name: name}
			fmt.Fprintf(&table, "| %s: %s |", f.name, name)
			for j, n := range sizes {
				v := f.of(middle(results[k][j]))
				if i == len(figures)-1 {
					fmt.Fprintf(&table, " %.1f |", v)
				} else {
					fmt.Fprintf(&table, " %s |", thousands(int(v)))
				}
				line.Points = append(line.Points, plot.Point{X: float64(n), Y: max(v, 0.01)})
			}
			table.WriteString("\n")
			panel.Lines = append(panel.Lines, line)
		}
		if i < 2 {
			panels = append(panels, panel)
		}
	}
	if err := plot.Write(filepath.Join(dir, "shards.svg"), panels...); err != nil {
		return err
	}
	return replaceMeasured(filepath.Join(dir, "shards.md"), "shards", table.String())
}
