//go:build unix

package interop

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

var onceFor = flag.Duration("once-for", 25*time.Second, "how long TestOnceWhileServersAreKilled fires its jobs")

// As the mutex, a fire can stand still with servers of 3.8.0 that have lost transactions.
func TestOnceWhileServersAreKilled(t *testing.T) {
	for attempt := 1; ; attempt++ {
		z := startEnsemble(t)
		err := fireWhileServersAreKilled(t, z)
		if err == nil {
			return
		}
		var logs strings.Builder
		z.WriteLogs(&logs)
		if attempt == 3 || !strings.Contains(logs.String(), "Digests are not matching") {
			t.Fatal(err)
		}
		measured(t, "%v: but the servers of the ensemble have different trees; another ensemble", err)
	}
}

// Twenty hosts, whose clocks are up to a minute apart, fire a job every ten seconds, each by its own clock.
// Meanwhile the servers of the ensemble are killed and started again, one after the other. Every fire runs
// once. A run whose lock was lost says so, and then the next host runs. The error is that of a call.
func fireWhileServersAreKilled(t *testing.T, z *peers.ZooKeeper) error {
	const (
		hosts  = 20
		period = 10 * time.Second
		apart  = time.Minute
	)
	var (
		mu   sync.Mutex
		runs = make(map[int64]int)   // by fire
		lost = make(map[int64]int)   // of them, those that were told so
		seen = make(map[int64]int64) // the token of the run that everybody is told of
		fail error                   // of the first call that failed
		all  sync.WaitGroup
	)
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), *onceFor+2*stepTime)
	defer cancel()
	for i := range hosts {
		ahead := time.Duration(i) * apart / (hosts - 1)
		c := dialURL(t, z.URL(), func(cfg *zk.Config) { cfg.SessionTimeout = 10 * time.Second })
		once := holdfast.NewOnce(c, "/fires", holdfast.WithOwner(fmt.Sprintf("host %d", i)))
		all.Go(func() {
			clock := func() time.Time { return time.Now().Add(ahead) }
			for fire := clock().UnixNano()/int64(period) + 1; ; fire++ {
				timer := time.NewTimer(time.Unix(0, fire*int64(period)).Sub(clock()))
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
				}
				if time.Since(began) > *onceFor || ctx.Err() != nil {
					timer.Stop()
					return
				}
				for {
					result, err := once.Do(ctx, strconv.FormatInt(fire, 10), func(context.Context) ([]byte, error) {
						mu.Lock()
						defer mu.Unlock()
						runs[fire]++
						return nil, nil
					})
					if result.Ran && errors.Is(err, holdfast.ErrLost) {
						mu.Lock()
						lost[fire]++
						mu.Unlock()
						continue // this host asks again, as a caller that wants the job done does
					}
					if err != nil {
						mu.Lock()
						defer mu.Unlock()
						fail = cmp.Or(fail, fmt.Errorf("host %d, fire %d: %w", i, fire, err))
						cancel()
						return
					}
					mu.Lock()
					if token, ok := seen[fire]; ok && token != result.Token {
						t.Errorf("fire %d: one host is told of the run %d, another of %d", fire, token, result.Token)
					}
					seen[fire] = result.Token
					mu.Unlock()
					break
				}
			}
		})
	}
	kills := 0
	for time.Since(began) < *onceFor-5*time.Second && ctx.Err() == nil {
		i := rand.IntN(3)
		must(t, z.Kill(i))
		if err := z.Restart(ctx, i); err != nil {
			break // the ensemble or a call has failed
		}
		kills++
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
	}
	all.Wait()
	if fail != nil {
		return fail
	}
	for fire, n := range runs {
		if n != 1+lost[fire] {
			t.Errorf("fire %d ran %d times, and %d of them were told that the lock was lost", fire, n, lost[fire])
		}
	}
	again := 0
	for _, n := range lost {
		again += n
	}
	if len(runs) < 3 || kills == 0 {
		t.Errorf("%d fires, %d kills: too few to tell anything", len(runs), kills)
	}
	measured(t, "%d fires of %d hosts whose clocks are up to %v apart, %d kills in %v: each ran once, but for %d runs whose lock was lost",
		len(runs), hosts, apart, kills, *onceFor, again)
	return nil
}
