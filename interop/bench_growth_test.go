//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/zk"
)

// growthSizes are the locks held, or the waiters in line, while cycles are counted.
func growthSizes(what string) []int {
	switch {
	case *quick:
		return []int{1, 10, 100}
	case what == inLine:
		return []int{1, 10, 100, 1000, *largest}
	}
	return []int{1, 10, 100, 1000, 10_000}
}

func growthName(server, what string, n int) string {
	return fmt.Sprintf("%s: %s %s", server, grouped(float64(n)), what)
}

const heldLocks, inLine = "locks held", "in line"

var growthServers = []string{"holdfast serve", "Apache ZooKeeper"}

func growthGoals() []goal {
	var goals []goal
	for _, server := range growthServers {
		for _, what := range []string{heldLocks, inLine} {
			for _, n := range growthSizes(what)[1:] {
				goals = append(goals, goal{who: growthName(server, what, n), than: growthName(server, what, 1), atLeast: 0.8})
			}
		}
	}
	return goals
}

// growthSides prepares all sizes at once, so that rounds can go from one to the next:
// locks that are held and waiters that wait cost nothing but their memory.
func growthSides(tb testing.TB) []side {
	var sides []side
	for _, server := range []struct {
		name, url string
		pid       int
	}{{growthServers[0], benchHoldfast.get(tb).URL(), benchHoldfast.get(tb).Pid()}, {growthServers[1], benchApache.get(tb).URL(), benchApache.get(tb).Pid(0)}} {
		add := func(what string, n int, sample func(ctx context.Context) (figures, error), err error) {
			if err != nil { // this size has failed, not the others
				sample = func(context.Context) (figures, error) { return nil, err }
			}
			sides = append(sides, side{growthName(server.name, what, n), sample})
		}
		for _, n := range growthSizes(heldLocks) {
			sample, err := holdMany(tb, server.url, n)
			add(heldLocks, n, sample, err)
		}
		for _, n := range growthSizes(inLine) {
			sample, err := standInLine(tb, server.url, server.pid, n)
			add(inLine, n, sample, err)
		}
	}
	return sides
}

const growthPeriod = 300 * time.Millisecond

// holdMany takes n locks in one session. A sample releases one after the other and takes
// it again. Each lock guards a counter.
func holdMany(tb testing.TB, url string, n int) (func(ctx context.Context) (figures, error), error) {
	ctx, cancel := context.WithTimeout(tb.Context(), stepTime)
	defer cancel()
	c, err := dialBench(ctx, url)
	if err != nil {
		return nil, err
	}
	tb.Cleanup(func() { c.Close() })
	locks, holds := make([]*holdfast.Mutex, n), make([]*holdfast.Hold, n)
	guarded, numbers, turns := make([]sideline, n), make([]int, n), make([]int, n)
	root := fmt.Sprintf("/bench/held-%d", crowdNumber.Add(1))
	if err := inBatches(n, func(i int) (err error) {
		locks[i] = holdfast.NewMutex(c, fmt.Sprintf("%s/%d", root, i))
		holds[i], err = locks[i].Lock(ctx)
		numbers[i] = guarded[i].enter()
		return err
	}); err != nil {
		return nil, err
	}
	next := 0
	return func(ctx context.Context) (figures, error) {
		cycles, began := 0, time.Now()
		for time.Since(began) < growthPeriod {
			guarded[next].leave(numbers[next])
			turns[next]++
			if err := holds[next].Unlock(); err != nil {
				return nil, err
			}
			var err error
			if holds[next], err = locks[next].Lock(ctx); err != nil {
				return nil, err
			}
			numbers[next] = guarded[next].enter()
			next = (next + 1) % n
			cycles++
		}
		rate := float64(cycles) / time.Since(began).Seconds()
		for i := range guarded {
			if err := guarded[i].check(fmt.Sprintf("%s/%d", root, i), turns[i]); err != nil {
				return nil, err
			}
		}
		return figures{"cycles/s": rate}, nil
	}, nil
}

// standInLine puts n waiters in line behind a holder. For every permit that a sample gives, the
// holder releases and joins again at the back. The lock guards a counter.
func standInLine(tb testing.TB, url string, pid, n int) (func(ctx context.Context) (figures, error), error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	clients := make([]*zk.Client, min(n+1, crowdSessions))
	failed := make(chan error, 1)
	permits := make(chan permit)
	var guarded sideline
	var wg sync.WaitGroup
	tb.Cleanup(func() {
		// The end of a session takes all its places at once; one at a time, each would
		// wake the next.
		together(len(clients), func(i int) error {
			if clients[i] == nil {
				return nil
			}
			return clients[i].Close()
		})
		cancel()
		wg.Wait()
	})
	for i := range clients {
		var err error
		if clients[i], err = dialBench(ctx, url); err != nil {
			return nil, err
		}
	}
	path := fmt.Sprintf("/bench/line-%d", crowdNumber.Add(1))
	for i := range n + 1 {
		m := holdfast.NewMutex(clients[i%len(clients)], path)
		wg.Go(func() {
			for {
				hold, err := m.Lock(ctx)
				if err == nil {
					number := guarded.enter()
					select {
					case p := <-permits:
						guarded.leave(number)
						if p.result != nil {
							p.result <- guarded.check(path, p.turns)
						}
						err = hold.Unlock()
					case <-hold.Context().Done():
						err = context.Cause(hold.Context())
					}
				}
				if err != nil {
					select {
					case failed <- err:
					default:
					}
					return
				}
			}
		})
	}
	setUp, done := context.WithTimeout(ctx, stepTime)
	defer done()
	if err := awaitCrowd(setUp, clients[0], pid, path, n+1); err != nil {
		return nil, err
	}
	turns := 0
	give := func(ctx context.Context, result chan error) error {
		turns++
		select {
		case permits <- permit{turns, result}:
			return nil
		case err := <-failed:
			return errors.Join(errors.New("a waiter has given up"), err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return func(ctx context.Context) (figures, error) {
		cycles, began := 0, time.Now()
		for time.Since(began) < growthPeriod {
			if err := give(ctx, nil); err != nil {
				return nil, err
			}
			cycles++
		}
		rate := float64(cycles) / time.Since(began).Seconds()
		result := make(chan error, 1)
		if err := give(ctx, result); err != nil {
			return nil, err
		}
		return figures{"cycles/s": rate}, <-result
	}, nil
}

// A permit lets the holder release. With a result, the holder first sends what the check says
// after so many turns.
type permit struct {
	turns  int
	result chan error
}
