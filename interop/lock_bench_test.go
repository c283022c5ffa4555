//go:build unix

package interop

import (
	"errors"
	"slices"
	"testing"
	"time"

	rival "github.com/go-zookeeper/zk"

	"holdfast"
	"holdfast/zk"
)

// The benchmarks compare our Mutex with go-zookeeper's Lock on one Apache
// ZooKeeper. One iteration is a round: both do the same work, one after the
// other, and the next round in the other order. So whatever drifts (the disk, the
// JVM, the neighbours on the machine) meets both alike. Reported are the medians
// over the rounds, and the median of each round's ratio: above 1 we are faster.
//
//	go test -run '^$' -bench . -benchtime 21x

const benchTimeout = 10 * time.Second // of all sessions, so that both ping alike

// A contestant locks and unlocks once. Each has a session of its own.
type contestant func() error

func oursOn(b *testing.B, c *zk.Client, path string) contestant {
	m := holdfast.NewMutex(c, path)
	ctx := b.Context()
	return func() error {
		hold, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		return hold.Unlock()
	}
}

func theirsOn(c *rival.Conn, path string) contestant {
	l := rival.NewLock(c, path, rival.WorldACL(rival.PermAll))
	return func() error {
		if err := l.Lock(); err != nil {
			return err
		}
		return l.Unlock()
	}
}

// One session on a lock that nobody else wants.
func BenchmarkLockUncontended(b *testing.B) {
	ours, theirs := contestants(b, 1)
	duel(b, "locks/s", 100, ours, theirs)
}

// Sixteen sessions on one lock: how fast it goes from one to the next.
func BenchmarkLockContended16(b *testing.B) {
	ours, theirs := contestants(b, 16)
	duel(b, "handoffs/s", 20, ours, theirs)
}

// contestants makes n sessions of either kind, each kind on its own lock.
func contestants(b *testing.B, n int) (ours, theirs []contestant) {
	server := oneZooKeeper.get(b)
	path := "/bench/" + b.Name()
	for range n {
		c := dialURL(b, server.URL(), func(cfg *zk.Config) { cfg.SessionTimeout = benchTimeout })
		ours = append(ours, oursOn(b, c, path+"/ours"))
		theirs = append(theirs, theirsOn(connectRival(b, server.Addrs(), benchTimeout), path+"/theirs"))
	}
	// The first turn makes the parents.
	if err := errors.Join(ours[0](), theirs[0]()); err != nil {
		b.Fatal(err)
	}
	return ours, theirs
}

// duel runs rounds of turns locks per contestant.
func duel(b *testing.B, unit string, turns int, ours, theirs []contestant) {
	var our, their, ratio []float64
	for first := true; b.Loop(); first = !first {
		var o, t float64
		if first {
			o, t = round(b, turns, ours), round(b, turns, theirs)
		} else {
			t, o = round(b, turns, theirs), round(b, turns, ours)
		}
		our, their, ratio = append(our, o), append(their, t), append(ratio, o/t)
	}
	b.ReportMetric(0, "ns/op") // of a round: says nothing
	b.ReportMetric(median(our), "ours-"+unit)
	b.ReportMetric(median(their), "go-zookeeper-"+unit)
	b.ReportMetric(median(ratio), "ratio")
}

// round is the locks per second of one side, all contestants at once.
func round(b *testing.B, turns int, side []contestant) float64 {
	errs := make(chan error, len(side))
	began := time.Now()
	for _, turn := range side {
		go func() {
			for range turns {
				if err := turn(); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var err error
	for range side {
		err = errors.Join(err, <-errs)
	}
	if err != nil {
		b.Fatal(err)
	}
	return float64(turns*len(side)) / time.Since(began).Seconds()
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}
