//go:build linux

package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A load is what every contestant of a row does: so many workers lock and unlock, each
// its own of so many locks, through so many sessions (connections with a lease of life of
// their own).
type load struct {
	sessions, locks, workers int

	period time.Duration // how long cycles are begun and counted
	hold   time.Duration // how long each worker keeps the lock; then all others stand in line when it goes
}

// A tally is what a load came to.
type tally struct {
	cycles  int           // locked and unlocked within the period
	changes int           // of them, the lock was another worker's before
	handoff time.Duration // median from Unlock called to Lock returned by another worker
}

func (o tally) figures(l load) figures {
	return figures{
		"cycles/s":   float64(o.cycles) / l.period.Seconds(),
		"handoffs/s": float64(o.changes) / l.period.Seconds(),
		"µs":         float64(o.handoff.Nanoseconds()) / 1e3,
	}
}

// A grab takes a lock and returns what gives it back.
type grab func(ctx context.Context) (release func() error, err error)

// A session is one session of a contestant. lock names one of its locks; nth tells
// workers of one lock in one session apart, for those who need to.
type session struct {
	lock  func(name string, nth int) (grab, error)
	close func()
}

// A sideline is what a lock guards. Its number is not atomic, so an update is lost if two hold the
// lock at once.
type sideline struct {
	inside   atomic.Int32
	number   int
	last     int       // worker that was here last, from 1
	leaving  time.Time // when that one called Unlock
	overlaps atomic.Int32
}

// enter begins a turn under the lock. leave gets the number that it returns.
func (s *sideline) enter() int {
	if s.inside.Add(1) != 1 {
		s.overlaps.Add(1)
	}
	return s.number
}

func (s *sideline) leave(number int) {
	s.number = number + 1
	s.inside.Add(-1)
}

// check reports a lock that two held at once in so many turns.
func (s *sideline) check(name string, turns int) error {
	if n := s.overlaps.Load(); n > 0 || s.number != turns {
		return fmt.Errorf("%w: on %s, %d times; its counter says %d after %d turns", errOverlap, name, n, s.number, turns)
	}
	return nil
}

// run puts the load on sessions, which are as many as it asks for. checked is false for
// those that stand for the cost of a lock, and exclude nobody.
func (l load) run(ctx context.Context, sessions []session, prefix string, checked bool) (tally, error) {
	grabs := make([]grab, l.workers)
	for w := range grabs {
		nth := w / max(l.sessions, l.locks)
		var err error
		if grabs[w], err = sessions[w%l.sessions].lock(fmt.Sprintf("%s-%d", prefix, w%l.locks), nth); err != nil {
			return tally{}, err
		}
	}
	// The first turn on each lock makes what has to be there.
	if err := together(l.locks, func(w int) error {
		release, err := grabs[w](ctx)
		if err != nil {
			return err
		}
		return release()
	}); err != nil {
		return tally{}, err
	}
	sidelines := make([]sideline, l.locks)
	counts, changes := make([]int, l.workers), make([]int, l.workers)
	turns := make([]int, l.workers)
	handoffs := make([][]time.Duration, l.workers)
	end := time.Now().Add(l.period)
	err := together(l.workers, func(w int) error {
		s := &sidelines[w%l.locks]
		for time.Now().Before(end) {
			release, err := grabs[w](ctx)
			if err != nil {
				return err
			}
			if checked {
				now := time.Now()
				n := s.enter()
				if s.last != 0 && s.last != w+1 {
					handoffs[w] = append(handoffs[w], now.Sub(s.leaving))
					if now.Before(end) {
						changes[w]++
					}
				}
				s.last = w + 1
				if l.hold > 0 {
					time.Sleep(l.hold)
				}
				s.leaving = time.Now()
				s.leave(n)
			}
			turns[w]++
			if err := release(); err != nil {
				return err
			}
			if time.Now().Before(end) {
				counts[w]++
			}
		}
		return nil
	})
	if err != nil {
		return tally{}, err
	}
	if checked {
		for i := range sidelines {
			want := 0
			for w := i; w < l.workers; w += l.locks {
				want += turns[w]
			}
			if err := sidelines[i].check(fmt.Sprintf("%s-%d", prefix, i), want); err != nil {
				return tally{}, err
			}
		}
	}
	o := tally{handoff: medianOf(slices.Concat(handoffs...))}
	for w := range counts {
		o.cycles += counts[w]
		o.changes += changes[w]
	}
	return o, nil
}

var errOverlap = errors.New("two held the lock at once")

func medianOf(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[len(d)/2]
}

// together runs do(0) to do(n-1) at once and returns when all have ended.
func together(n int, do func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
