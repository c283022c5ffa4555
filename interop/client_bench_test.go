//go:build linux

package interop

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	rival "github.com/go-zookeeper/zk"

	"holdfast/zk"
)

// benchTimeout is the timeout of every session that is measured, of every etcd lease and of every
// redis lock: the heartbeats that clients send depend on it.
const benchTimeout = 10 * time.Second

// The benchmarks compare our client with go-zookeeper's on one server, in rounds as in
// bench_table_test.go. The server is a separate process, so this one's cost is the client's.
// Processor time and allocations per operation are counted as well.

// An errand is one operation of a client, or two that belong together.
type errand func() error

// A workload is the work of many goroutines on one session.
type workload struct {
	name       string
	goroutines int
	perRound   int // errands per goroutine
	operations int // per errand
	ours       func(ctx context.Context, c *zk.Client) errand
	theirs     func(c *rival.Conn) errand
}

const benchNode = "/client-bench"

var workloads = []workload{
	{"CreateDelete/goroutines=1", 1, 200, 2, ourCreateDelete, theirCreateDelete},
	{"Get/goroutines=1", 1, 2000, 1, ourGet, theirGet},
	{"Get/goroutines=64", 64, 500, 1, ourGet, theirGet},
	{"CreateDelete/goroutines=64", 64, 100, 2, ourCreateDelete, theirCreateDelete},
	{"Get/goroutines=16384", 16384, 4, 1, ourGet, theirGet},
}

func ourGet(ctx context.Context, c *zk.Client) errand {
	return func() error {
		_, _, err := c.Get(ctx, benchNode)
		return err
	}
}

func theirGet(c *rival.Conn) errand {
	return func() error {
		_, _, err := c.Get(benchNode)
		return err
	}
}

func ourCreateDelete(ctx context.Context, c *zk.Client) errand {
	return func() error {
		path, _, err := c.Create(ctx, benchNode+"/n-", nil, zk.EphemeralSequential)
		if err != nil {
			return err
		}
		return c.Delete(ctx, path, zk.AnyVersion)
	}
}

func theirCreateDelete(c *rival.Conn) errand {
	return func() error {
		path, err := c.Create(benchNode+"/n-", nil, rival.FlagEphemeral|rival.FlagSequence, rival.WorldACL(rival.PermAll))
		if err != nil {
			return err
		}
		return c.Delete(path, -1)
	}
}

func BenchmarkClient(b *testing.B) {
	server := oneHoldfast.get(b)
	c := dialURL(b, server.URL(), func(cfg *zk.Config) { cfg.SessionTimeout = benchTimeout })
	r := connectRival(b, []string{strings.TrimPrefix(server.URL(), "zk://")}, benchTimeout)
	if _, _, err := c.Create(b.Context(), benchNode, make([]byte, 100), zk.Persistent); err != nil && !errors.Is(err, zk.ErrNodeExists) {
		b.Fatal(err)
	}
	for _, w := range workloads {
		b.Run(w.name, func(b *testing.B) {
			var our, their, rate, work, ourAllocs, theirAllocs []float64
			ours, theirs := w.ours(b.Context(), c), w.theirs(r)
			for first := true; b.Loop(); first = !first {
				var o, t spent
				if first {
					o, t = w.round(b, ours), w.round(b, theirs)
				} else {
					t, o = w.round(b, theirs), w.round(b, ours)
				}
				our, their, rate = append(our, o.perSecond), append(their, t.perSecond), append(rate, o.perSecond/t.perSecond)
				work = append(work, o.perCPUSecond/t.perCPUSecond)
				ourAllocs, theirAllocs = append(ourAllocs, o.allocs), append(theirAllocs, t.allocs)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(median(our), "ours-op/s")
			b.ReportMetric(median(their), "go-zookeeper-op/s")
			b.ReportMetric(median(rate), "ratio")
			b.ReportMetric(median(work), "ratio-per-cpu")
			b.ReportMetric(median(ourAllocs), "ours-allocs/op")
			b.ReportMetric(median(theirAllocs), "go-zookeeper-allocs/op")
		})
	}
}

// spent is the cost of a round.
type spent struct{ perSecond, perCPUSecond, allocs float64 }

func (w workload) round(b *testing.B, do errand) spent {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := cpuTime(b), time.Now()
	errs := make(chan error, w.goroutines)
	for range w.goroutines {
		go func() {
			var err error
			for i := 0; i < w.perRound && err == nil; i++ {
				err = do()
			}
			errs <- err
		}()
	}
	var err error
	for range w.goroutines {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		b.Fatal(err)
	}
	took, used := time.Since(began), cpuTime(b)-cpu
	runtime.ReadMemStats(&after)
	n := float64(w.goroutines * w.perRound * w.operations)
	return spent{n / took.Seconds(), n / used.Seconds(), float64(after.Mallocs-before.Mallocs) / n}
}

// cpuTime returns the processor time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
