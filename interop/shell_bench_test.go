//go:build linux

package interop

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"holdfast/interop/peers"
)

// BenchmarkShellLock compares `holdfast run x -- true` with `etcdctl lock x true`, pair by pair: a free lock, a server
// that has been used before, and for holdfast a watchdog beside the command. On file://, the host process of the
// directory stays up between two runs.
//
//	go test -run '^$' -bench '^BenchmarkShellLock$' -benchtime 200x
func BenchmarkShellLock(b *testing.B) {
	need(b, peers.NeedCommand("etcdctl", "etcd-client"))
	etcd, err := peers.StartEtcd(b.Context(), b.TempDir())
	closing(b, etcd, err)
	served, err := peers.StartHoldfast(b.Context(), holdfastBin(b), b.TempDir())
	closing(b, served, err)
	timed := func(env []string, argv ...string) time.Duration {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), env...)
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%s: %v\n%s", argv, err, out)
		}
		return time.Since(began)
	}
	theirs := func() time.Duration {
		return timed([]string{"ETCDCTL_API=3", "ETCDCTL_ENDPOINTS=" + etcd.Addr()}, "etcdctl", "lock", "x", "true")
	}
	for _, s := range []struct{ name, server string }{{"file", "file://" + b.TempDir() + "/store"}, {"serve", served.URL()}} {
		b.Run(s.name, func(b *testing.B) {
			ours := func() time.Duration {
				return timed([]string{"HOLDFAST_SERVER=" + s.server}, holdfastBin(b), "run", "x", "--", "true")
			}
			for range 20 { // until both servers and the page cache are warm
				ours()
				theirs()
			}
			var us, them []time.Duration
			var ratios []float64
			for i := 0; b.Loop(); i++ {
				var one, other time.Duration
				if i%2 == 0 {
					one, other = ours(), theirs()
				} else {
					other, one = theirs(), ours()
				}
				us, them, ratios = append(us, one), append(them, other), append(ratios, float64(one)/float64(other))
			}
			b.ReportMetric(float64(medianOf(us).Microseconds())/1000, "ms-holdfast")
			b.ReportMetric(float64(medianOf(them).Microseconds())/1000, "ms-etcdctl")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
			b.Logf("holdfast %s, etcdctl %s", percentiles(us), percentiles(them))
		})
	}
}
