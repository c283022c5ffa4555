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
		for what, least := range map[string]float64{heldLocks: 0.8, inLine: 0.85} {
			for _, n := range growthSizes(what)[1:] {
				goals = append(goals, goal{who: growthName(server, what, n), than: growthName(server, what, 1), atLeast: least})
			}
		}
	}
	for _, n := range peersInLine() {
		goals = append(goals, goal{who: growthName(growthServers[1], inLine, n), than: growthName(goZooKeeper, inLine, n), atLeast: 1.15})
	}
	return goals
}

// peersInLine are the sizes of the lines of go-zookeeper's Locks.
func peersInLine() []int {
	if *quick {
		return []int{100}
	}
	return []int{100, 1000}
}

// growthSides prepares all sizes at once, so that rounds can go from one to the next:
// locks that are held and waiters that wait cost nothing but their memory.
func growthSides(tb testing.TB) []side {
	var sides []side
	for _, server := range []struct {
		name, url string
		pid       int
	}{{growthServers[0], benchHoldfast.get(tb).URL(), benchHoldfast.get(tb).Pid()}, {growthServers[1], benchApache.get(tb).URL(), benchApache.get(tb).Pid(0)}} {
		onlooker := dialURL(tb, server.url)
		add := func(what string, n int, sample func(ctx context.Context) (figures, error), err error) {
			sides = append(sides, sideOr(growthName(server.name, what, n), sample, err))
		}
		for _, n := range growthSizes(heldLocks) {
			sample, err := holdMany(tb, server.url, n)
			add(heldLocks, n, sample, err)
		}
		for _, n := range growthSizes(inLine) {
			sample, err := standInLine(tb, openOurs(server.url), onlooker, server.pid, n)
			add(inLine, n, sample, err)
		}
		if server.name != growthServers[1] {
			continue
		}
		for _, n := range peersInLine() {
			sample, err := standInLine(tb, openGoZooKeeper(benchApache.get(tb).Addrs()[0]), onlooker, server.pid, n)
			sides = append(sides, sideOr(growthName(goZooKeeper, inLine, n), sample, err))
		}
	}
	return sides
}

// sideOr is a side whose samples fail if it could not be prepared: the other sides go on.
func sideOr(name string, sample func(ctx context.Context) (figures, error), err error) side {
	if err != nil {
		sample = func(context.Context) (figures, error) { return nil, err }
	}
	return side{name, sample}
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
func standInLine(tb testing.TB, open func(context.Context) (session, error), onlooker *zk.Client, pid, n int) (func(ctx context.Context) (figures, error), error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var sessions []session
	failed := make(chan error, 1)
	permits := make(chan permit)
	var guarded sideline
	var wg sync.WaitGroup
	tb.Cleanup(func() {
		// The end of a session takes all its places at once; one at a time, each would
		// wake the next.
		together(len(sessions), func(i int) error { sessions[i].close(); return nil })
		cancel()
		wg.Wait()
	})
	for range min(n+1, crowdSessions) {
		s, err := open(ctx)
		if err != nil {
			return nil, err
		}
		sessions = append(sessions, s)
	}
	name := fmt.Sprintf("line-%d", crowdNumber.Add(1))
	for i := range n + 1 {
		take, err := sessions[i%len(sessions)].lock(name, 0)
		if err != nil {
			return nil, err
		}
		wg.Go(func() {
			for {
				release, err := take(ctx)
				if err == nil {
					number := guarded.enter()
					select {
					case p := <-permits:
						guarded.leave(number)
						if p.result != nil {
							p.result <- guarded.check(name, p.turns)
						}
						err = release()
					case <-ctx.Done():
						err = context.Cause(ctx)
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
	if err := awaitCrowd(setUp, onlooker, pid, "/bench/"+name, n+1); err != nil {
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
