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
	"holdfast/once"
	"holdfast/shards"
	"holdfast/zk"
)

var killsFor = flag.Duration("kills-for", 25*time.Second, "how long the tests of the kinds go on whose servers are killed")

// differentTrees is in the log of a server of 3.8.0 that has lost transactions, since it was killed while it synchronised
// (ZOOKEEPER-3023, ZOOKEEPER-4785), or that has them alone. Then no promise of a lock can be kept.
const differentTrees = "Digests are not matching"

// whileServersAreKilled calls use with an ensemble, and again with another one if servers of 3.8.0 have lost
// transactions, so that a client waited for ever.
func whileServersAreKilled(t *testing.T, use func(t *testing.T, z *peers.ZooKeeper) error) {
	for attempt := 1; ; attempt++ {
		z := startEnsemble(t)
		err := use(t, z)
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

// killServers kills one server after the other, and starts it again, for a time. It returns how many.
func killServers(ctx context.Context, z *peers.ZooKeeper, d time.Duration) (kills int) {
	for began := time.Now(); time.Since(began) < d && ctx.Err() == nil; kills++ {
		i := rand.IntN(3)
		if z.Kill(i) != nil || z.Restart(ctx, i) != nil {
			return kills // the test sees that clients stand still
		}
		select {
		case <-time.After(3 * time.Second):
		case <-ctx.Done():
		}
	}
	return kills
}

func TestOnceWhileServersAreKilled(t *testing.T) { whileServersAreKilled(t, fireWhileServersAreKilled) }

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
	ctx, cancel := context.WithTimeout(t.Context(), *killsFor+2*stepTime)
	defer cancel()
	for i := range hosts {
		ahead := time.Duration(i) * apart / (hosts - 1)
		c := dialURL(t, z.URL(), func(cfg *zk.Config) { cfg.SessionTimeout = 10 * time.Second })
		fires := once.New(c, "/fires", once.WithLock(holdfast.WithOwner(fmt.Sprintf("host %d", i))))
		all.Go(func() {
			clock := func() time.Time { return time.Now().Add(ahead) }
			for fire := clock().UnixNano()/int64(period) + 1; ; fire++ {
				timer := time.NewTimer(time.Unix(0, fire*int64(period)).Sub(clock()))
				select {
				case <-timer.C:
				case <-ctx.Done():
					timer.Stop()
				}
				if time.Since(began) > *killsFor || ctx.Err() != nil {
					timer.Stop()
					return
				}
				for {
					result, err := fires.Key(strconv.FormatInt(fire, 10)).Do(ctx, func(context.Context) ([]byte, error) {
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
	kills := killServers(ctx, z, *killsFor-5*time.Second)
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
		len(runs), hosts, apart, kills, *killsFor, again)
	return nil
}

func TestShardsWhileServersAreKilled(t *testing.T) {
	whileServersAreKilled(t, shareWhileServersAreKilled)
}

// Workers share shards, and come and go. No shard has two of them at a time, tokens grow, and in the end
// every shard has a worker, and every worker its share.
func shareWhileServersAreKilled(t *testing.T, z *peers.ZooKeeper) error {
	const number, workers, passing = 60, 4, 2 // and as many that come and go
	var (
		mu     sync.Mutex
		has    = make(map[int]int)   // the worker of a shard, from 1 on
		tokens = make(map[int]int64) // the latest of a shard
		tenure int
		moved  = make(chan struct{}, 1)
	)
	ctx, cancel := context.WithTimeout(t.Context(), *killsFor+2*stepTime)
	defer cancel()
	work := func(ctx context.Context, worker int) error {
		c, err := zk.Dial(ctx, zk.Config{Servers: z.Addrs(), SessionTimeout: 10 * time.Second, TickTime: z.Tick()})
		if err != nil {
			return err
		}
		defer c.Close()
		return shards.New(c, "/shards", number).Run(ctx, func(ctx context.Context, s shards.Shard) error {
			mu.Lock()
			if other := has[s.Number]; other != 0 {
				t.Errorf("shard %d has the workers %d and %d", s.Number, other, worker)
			}
			if s.Token <= tokens[s.Number] {
				t.Errorf("shard %d has token %d after %d", s.Number, s.Token, tokens[s.Number])
			}
			has[s.Number], tokens[s.Number] = worker, s.Token
			tenure++
			mu.Unlock()
			select {
			case moved <- struct{}{}:
			default:
			}
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			delete(has, s.Number)
			return nil
		})
	}
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	for i := range workers {
		all.Go(func() {
			if err := work(ctx, 1+i); ctx.Err() == nil {
				t.Errorf("worker %d: %v", 1+i, err)
			}
		})
	}
	come, leave := context.WithTimeout(ctx, *killsFor-5*time.Second)
	defer leave()
	var guests sync.WaitGroup
	for i := range passing {
		guests.Go(func() {
			for come.Err() == nil {
				stay, end := context.WithTimeout(come, time.Second+rand.N(5*time.Second))
				if err := work(stay, 1+workers+i); stay.Err() == nil {
					t.Errorf("worker %d: %v", 1+workers+i, err)
				}
				end()
			}
		})
	}
	kills := killServers(ctx, z, *killsFor-5*time.Second)
	guests.Wait()
	// Everything settles.
	for {
		mu.Lock()
		share := make(map[int]int)
		for _, worker := range has {
			share[worker]++
		}
		n := tenure
		mu.Unlock()
		even := len(share) == workers
		for _, k := range share {
			even = even && k == number/workers
		}
		if even {
			measured(t, "%d tenures of %d shards, %d kills in %v: none had two workers", n, number, kills, *killsFor)
			return nil
		}
		select {
		case <-moved:
		case <-time.After(100 * time.Millisecond): // the end of a tenure is not told
		case <-ctx.Done():
			return fmt.Errorf("after %d kills, the shards of the workers are %v", kills, share)
		}
	}
}

func TestSlotsWhileServersAreKilled(t *testing.T) {
	whileServersAreKilled(t, slotWhileServersAreKilled)
}

// More callers than slots. No number is held twice, and tokens grow.
func slotWhileServersAreKilled(t *testing.T, z *peers.ZooKeeper) error {
	const slots, callers = 3, 8
	var (
		mu     sync.Mutex
		taken  [slots]bool
		tokens [slots]int64
		turns  int
		fail   error
		all    sync.WaitGroup
	)
	ctx, cancel := context.WithTimeout(t.Context(), *killsFor+2*stepTime)
	defer cancel()
	over, stop := context.WithTimeout(ctx, *killsFor)
	defer stop()
	for range callers {
		s := holdfast.NewSlots(dialURL(t, z.URL(), func(cfg *zk.Config) { cfg.SessionTimeout = 10 * time.Second }), "/slots", slots)
		all.Go(func() {
			for over.Err() == nil {
				h, err := s.Acquire(ctx, 1+rand.N(slots))
				if err != nil {
					mu.Lock()
					defer mu.Unlock()
					fail = cmp.Or(fail, err)
					cancel()
					return
				}
				mu.Lock()
				for _, i := range h.Slots() {
					if taken[i] {
						t.Errorf("slot %d is held twice", i)
					}
					if h.Token() <= tokens[i] {
						t.Errorf("slot %d has token %d after %d", i, h.Token(), tokens[i])
					}
					taken[i], tokens[i] = true, h.Token()
				}
				turns++
				mu.Unlock()
				select {
				case <-time.After(rand.N(10 * time.Millisecond)):
				case <-h.Context().Done():
				}
				mu.Lock()
				for _, i := range h.Slots() {
					taken[i] = false
				}
				mu.Unlock()
				if err := h.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) {
					t.Errorf("unlock: %v", err)
				}
			}
		})
	}
	kills := killServers(ctx, z, *killsFor-5*time.Second)
	all.Wait()
	if fail != nil {
		return fail
	}
	if turns < 100 || kills == 0 {
		t.Errorf("%d turns, %d kills: too few to tell anything", turns, kills)
	}
	measured(t, "%d turns at %d slots, %d kills in %v: no number was held twice", turns, slots, kills, *killsFor)
	return nil
}
