//go:build unix

package interop

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

// Sessions take turns on one lock while the ensemble's servers are killed and restarted, one at
// a time. Requests are cut off at every stage, so some creates and deletes happen without an
// answer. Still one session holds the lock at a time, tokens grow, all sessions get all their
// turns, and the queue is empty in the end.
func TestMutexOutlivesTheServersOfItsEnsemble(t *testing.T) {
	for attempt := 1; ; attempt++ {
		z := startEnsemble(t)
		err := outliveServers(t, z)
		if err == nil {
			return
		}
		var logs strings.Builder
		z.WriteLogs(&logs)
		if attempt == 3 || !strings.Contains(logs.String(), differentTrees) {
			t.Fatal(err)
		}
		measured(t, "%v: but the servers of the ensemble have different trees; another ensemble", err)
	}
}

// outliveServers fails the test if the lock is wrong. It returns an error if the lock stands still.
func outliveServers(t *testing.T, z *peers.ZooKeeper) error {
	const (
		sessions = 8
		kills    = 6 // each server twice on average
	)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const path = "/outlives"

	var (
		holders   atomic.Int32
		lastToken atomic.Int64
		turns     atomic.Int64
		stop      = make(chan struct{}) // closed after the last kill
		failed    = make(chan error, sessions)
		all       sync.WaitGroup
	)
	ctx, cancel := context.WithTimeout(t.Context(), 2*stepTime)
	defer all.Wait()
	defer cancel() // first, so that a failed test does not wait for locks
	for range sessions {
		m := holdfast.NewMutex(dialURL(t, z.URL(), func(cfg *zk.Config) { cfg.SessionTimeout = 10 * time.Second }), path)
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				hold, err := m.Lock(ctx)
				if err != nil {
					failed <- err
					return
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock at once", n)
				}
				if token := hold.Token(); lastToken.Swap(token) >= token {
					t.Errorf("token %#x is not above that of the holder before", token)
				}
				turns.Add(1)
				holders.Add(-1)
				if err := hold.Unlock(); err != nil {
					t.Errorf("unlock: %v", err)
				}
			}
		})
	}
	for range kills {
		// The fault must hit a lock in use, so wait until it is used again.
		for from := turns.Load(); turns.Load() < from+2*sessions; {
			select {
			case err := <-failed:
				return fmt.Errorf("the lock stands still after %d turns: %w", turns.Load(), err)
			case <-time.After(10 * time.Millisecond):
			}
		}
		i := random.IntN(3)
		must(t, z.Kill(i))
		if err := z.Restart(ctx, i); err != nil {
			return err
		}
	}
	close(stop)
	all.Wait()
	select {
	case err := <-failed:
		return fmt.Errorf("the lock stands still after %d turns: %w", turns.Load(), err)
	default:
	}
	entries, err := holdfast.List(ctx, dialURL(t, z.URL()), path)
	must(t, err)
	for _, e := range entries {
		t.Errorf("left in the queue: %+v", e)
	}
	measured(t, "%d turns over %d kills", turns.Load(), kills)
	return nil
}
