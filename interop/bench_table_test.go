//go:build linux

package interop

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"holdfast/interop/peers"
)

// BenchmarkTable measures the table of docs/explanation/benchmarks.md: every kind of work by us and by
// others, in rounds. One iteration is a round: each contestant does the same work, one
// after the other, and in the next round in the opposite order, so whatever drifts (the
// disk, the JVM, the neighbours on the machine) meets all alike. The figures are medians
// over the rounds; a ratio is the median of the rounds' ratios.
//
//	go test -run '^$' -bench 'Table$' -benchtime 6x                   # all
//	go test -run '^$' -bench 'Table$/^(1|8)-' -benchtime 6x -quick    # some of it, roughly
//
// All that is durable syncs every write before it answers, on the disk of TMPDIR: ZooKeeper
// with forceSync (its default), etcd as it comes, redis with appendfsync always.
func BenchmarkTable(b *testing.B) {
	report := newReport(b)
	for _, r := range rows {
		b.Run(fmt.Sprintf("%d-%s", r.number, r.name), func(b *testing.B) {
			m := &measurement{row: r, began: time.Now()}
			m.prepare(b)
			defer report.add(m)
			for forward := true; b.Loop(); forward = !forward {
				m.round(b, forward)
			}
			m.took = time.Since(m.began)
			b.ReportMetric(0, "ns/op") // of a round: says nothing
			for _, s := range m.sides {
				if v := m.values[s.name][r.units[0]]; len(v) > 0 {
					b.ReportMetric(estimateOf(v).median, slug(s.name)+"-"+r.units[0])
				}
			}
		})
	}
	report.finish(b)
}

var (
	quick     = flag.Bool("quick", false, "benchmarks: shorter rounds and smaller crowds")
	largest   = flag.Int("crowd", 3000, "benchmarks: the largest crowd that waits for one lock")
	tableFile = flag.String("table", "", "benchmarks: write the table into this file between its marks, and the plots beside it")
)

// A row is one kind of work.
type row struct {
	number int
	name   string   // in the benchmark's name
	work   string   // what it is
	units  []string // what is measured; the first is what counts
	goals  func() []goal
	// sides starts what the row needs and is called once.
	sides func(tb testing.TB) []side
}

// A side is one contestant in one row.
type side struct {
	name   string
	sample func(ctx context.Context) (figures, error)
}

// A measurement is what a row came to.
type measurement struct {
	row    row
	sides  []side
	values map[string]map[string][]float64 // by side and unit, in the order of the rounds
	failed map[string]error
	cold   []string // the sides whose rate had not stood still when the samples began
	rounds int
	began  time.Time
	took   time.Duration
}

func (m *measurement) prepare(tb testing.TB) {
	m.values, m.failed = make(map[string]map[string][]float64), make(map[string]error)
	m.sides = m.row.sides(tb)
	for _, s := range m.sides {
		m.values[s.name] = make(map[string][]float64)
	}
	m.warm(tb)
	m.began = time.Now()
}

// sampleTime is more than any sample takes, and less than would use up the time that
// there is for all of them.
const sampleTime = 40 * time.Second

// rowTime is when a row begins no more rounds: it has then fewer than the others, and the
// table says how many.
const rowTime = 150 * time.Second

// round takes one sample of each side. One that fails takes no further part, and the
// others go on: a table with a hole is better than none.
func (m *measurement) round(tb testing.TB, forward bool) {
	if m.rounds > 0 && time.Since(m.began) > rowTime {
		return
	}
	m.rounds++
	order := slices.Clone(m.sides)
	if !forward {
		slices.Reverse(order)
	}
	for _, s := range order {
		if m.failed[s.name] != nil {
			continue
		}
		began := time.Now()
		f, err := sampleOnce(tb.Context(), s)
		if took := time.Since(began); took > 5*time.Second {
			progress("row %d, round %d: %s takes %v", m.row.number, m.rounds, s.name, took.Round(100*time.Millisecond))
		}
		if err != nil {
			m.fail(tb, s, err)
			continue
		}
		for unit, v := range f {
			m.values[s.name][unit] = append(m.values[s.name][unit], v)
		}
	}
}

func (m *measurement) fail(tb testing.TB, s side, err error) {
	m.failed[s.name] = err
	tb.Errorf("%s: %v", s.name, err)
}

func sampleOnce(ctx context.Context, s side) (figures, error) {
	runtime.GC() // what the one before has left is not this one's
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	type result struct {
		figures figures
		err     error
	}
	// go-zookeeper's calls know no context; one that hangs is left behind.
	done := make(chan result, 1)
	go func() {
		f, err := s.sample(ctx)
		done <- result{f, err}
	}()
	select {
	case r := <-done:
		return r.figures, r.err
	case <-ctx.Done():
		select {
		case r := <-done:
			return r.figures, r.err
		case <-time.After(5 * time.Second):
			return nil, context.Cause(ctx)
		}
	}
}

// The servers of the table, which are those of no test: the JVM is one as in production,
// and files are allocated in the size that is ZooKeeper's default.
var (
	benchApache = sharedPeer[*peers.ZooKeeper]{start: func(ctx context.Context, dir string) (*peers.ZooKeeper, error) {
		return peers.StartZooKeeper(ctx, dir, peers.ZooKeeperConfig{
			TickTime: 2 * time.Second,
			Flags:    productionJVM,
			Settings: []string{"preAllocSize=65536"},
		})
	}}
	benchHoldfast = sharedPeer[*peers.Holdfast]{start: func(ctx context.Context, dir string) (*peers.Holdfast, error) {
		bin, err := buildOnce()
		if err != nil {
			return nil, err
		}
		return peers.StartHoldfast(ctx, bin, dir, "--admin", "127.0.0.1:0") // for what it has in memory
	}}
	benchEtcd    = sharedPeer[*peers.Etcd]{start: peers.StartEtcd}
	benchRedis   = sharedPeer[*peers.Redis]{start: peers.StartRedis}
	benchCurator = sharedPeer[*program]{start: startBenchCurator}
	benchKazoo   = sharedPeer[*program]{start: startBenchKazoo}
)

// progress tells on standard error how far a long run is; the benchmark's own line comes
// when a row is complete.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
