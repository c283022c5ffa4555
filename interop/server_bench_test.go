//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zk"
)

// BenchmarkServer compares `holdfast serve` with one Apache ZooKeeper on the same disk, under
// the same load from the same client (ours), in the rounds of lock_bench_test.go. The JVM here
// is configured as in production, not like the small one of the tests. The load costs both the
// same, and takes its share of the machine. So the ratios are smaller than those of the servers
// alone.
//
//	go test -run '^$' -bench BenchmarkServer -benchtime 9x
func BenchmarkServer(b *testing.B) {
	ours, err := peers.StartHoldfast(b.Context(), holdfastBin(b), b.TempDir())
	closing(b, ours, err)
	apache, err := peers.StartZooKeeper(b.Context(), b.TempDir(), peers.ZooKeeperConfig{
		Flags:    []string{"-Xmx1000m", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4"},
		Settings: []string{"preAllocSize=65536"},
	})
	closing(b, apache, err)
	sides := []*benchSide{newBenchSide(b, ours.URL(), ours.Pid()), newBenchSide(b, apache.URL(), apache.Pid(0))}
	for _, load := range serverLoads {
		b.Run(load.name, func(b *testing.B) {
			var rates [2][]float64
			var ratio []float64
			for first := 0; b.Loop(); first = 1 - first {
				for _, i := range []int{first, 1 - first} {
					rates[i] = append(rates[i], sides[i].round(b, load))
				}
				ratio = append(ratio, last(rates[0])/last(rates[1]))
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(rates[0]), "ours-op/s")
			b.ReportMetric(median(rates[1]), "apache-op/s")
			b.ReportMetric(median(ratio), "ratio")
		})
	}
	b.Run("OneCreate", func(b *testing.B) { benchOneCreate(b, sides) })
	b.Run("Memory", func(b *testing.B) {
		for b.Loop() {
		}
		o, a := sides[0].resident(b), sides[1].resident(b)
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(o, "ours-MiB")
		b.ReportMetric(a, "apache-MiB")
		b.ReportMetric(o/a, "ratio")
	})
}

type serverLoad struct {
	name     string
	inFlight int // per connection
	perRound int // operations per connection
	op       func(ctx context.Context, c *zk.Client) error
	deletes  bool // the round's nodes are deleted after it was timed
}

const benchConns = 8

var serverLoads = []serverLoad{
	{"Create/conns=8/inflight=8", 8, 500, benchCreate, true},
	{"Create/conns=8/inflight=64", 64, 2000, benchCreate, true},
	{"Get/conns=8/inflight=8", 8, 4000, benchGet, false},
	{"Get/conns=8/inflight=64", 64, 16000, benchGet, false},
}

const benchParent = "/server-bench"

func benchCreate(ctx context.Context, c *zk.Client) error {
	_, _, err := c.Create(ctx, benchParent+"/n-", make([]byte, 100), zk.PersistentSequential)
	return err
}

func benchGet(ctx context.Context, c *zk.Client) error {
	_, _, err := c.Get(ctx, benchParent)
	return err
}

type benchSide struct {
	clients []*zk.Client
	pid     int
}

func newBenchSide(b *testing.B, url string, pid int) *benchSide {
	s := &benchSide{pid: pid}
	for range benchConns {
		s.clients = append(s.clients, dialURL(b, url, func(cfg *zk.Config) { cfg.SessionTimeout = benchTimeout }))
	}
	if _, _, err := s.clients[0].Create(b.Context(), benchParent, make([]byte, 100), zk.Persistent); err != nil {
		b.Fatal(err)
	}
	return s
}

// round returns how many operations per second the server has done.
func (s *benchSide) round(b *testing.B, load serverLoad) float64 {
	runtime.GC()
	errs := make(chan error)
	began := time.Now()
	for _, c := range s.clients {
		for range load.inFlight {
			go func() {
				var err error
				for i := 0; i < load.perRound/load.inFlight && err == nil; i++ {
					err = load.op(b.Context(), c)
				}
				errs <- err
			}()
		}
	}
	var err error
	for range benchConns * load.inFlight {
		err = errors.Join(err, <-errs)
	}
	took := time.Since(began)
	if load.deletes {
		err = errors.Join(err, s.empty(b.Context()))
	}
	if err != nil {
		b.Fatal(err)
	}
	return float64(benchConns*(load.perRound/load.inFlight)*load.inFlight) / took.Seconds()
}

// empty deletes the nodes of a round.
func (s *benchSide) empty(ctx context.Context) error {
	c := s.clients[0]
	names, _, err := c.Children(ctx, benchParent)
	if err != nil {
		return err
	}
	ops := make([]zk.Op, len(names))
	for i, name := range names {
		ops[i] = zk.DeleteOp(benchParent+"/"+name, zk.AnyVersion)
	}
	_, err = c.Pipeline(ctx, ops...)
	return err
}

// resident returns the resident memory of the server's process, in MiB.
func (s *benchSide) resident(b *testing.B) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid))
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}

// benchOneCreate measures one create at a time. It also measures the minimum for any server: to
// append the record to a file and sync it.
func benchOneCreate(b *testing.B, sides []*benchSide) {
	const turns, record = 200, 200 // the size of a create's record in our store's log
	file, err := os.Create(filepath.Join(b.TempDir(), "bare"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	page := make([]byte, record)
	bare := func() error {
		if _, err := file.Write(page); err != nil {
			return err
		}
		return syscall.Fdatasync(int(file.Fd()))
	}
	each := func(do func() error) float64 { // µs
		took := make([]float64, turns)
		for i := range took {
			began := time.Now()
			if err := do(); err != nil {
				b.Fatal(err)
			}
			took[i] = float64(time.Since(began).Nanoseconds()) / 1e3
		}
		return median(took)
	}
	var ours, apache, disk, ratio []float64
	for b.Loop() {
		disk = append(disk, each(bare))
		ours = append(ours, each(func() error { return benchCreate(b.Context(), sides[0].clients[0]) }))
		apache = append(apache, each(func() error { return benchCreate(b.Context(), sides[1].clients[0]) }))
		ratio = append(ratio, last(ours)/last(disk))
	}
	for _, s := range sides {
		if err := s.empty(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(median(disk), "bare-µs")
	b.ReportMetric(median(ours), "ours-µs")
	b.ReportMetric(median(apache), "apache-µs")
	b.ReportMetric(median(ratio), "ratio-to-bare")
}

func last(v []float64) float64 { return v[len(v)-1] }
