//go:build linux

package interop

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// Every contestant of docs/explanation/benchmarks.md takes a few turns with several workers on each
// lock, and a counter shows that it lets in one at a time. Nothing is said of how fast: a
// figure from a lock that excludes nobody would be worth nothing, and a contestant that
// has ceased to work would only be noticed when the table is made again.
func TestEveryContestantOfTheTableExcludes(t *testing.T) {
	for _, name := range []string{oursOnApache, oursOnOurs, oursLocal, goZooKeeper, curator, kazoo, etcdMutex, redsyncMutex, twoWrites, twoSyncs, deleteToEvent} {
		t.Run(slug(name), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stepTime)
			defer cancel()
			bear := contestant(t, name)
			for _, l := range []load{
				{sessions: 3, locks: 1, workers: 6},
				{sessions: 1, locks: 3, workers: 3},
				{sessions: 2, locks: 1, workers: 2, hold: time.Millisecond},
			} {
				// On a busy machine a JVM's first turn may take all of it: then there is more.
				for l.period = 300 * time.Millisecond; ; l.period *= 2 {
					o, err := bear(ctx, l, "smoke")
					if err != nil {
						t.Fatalf("%+v: %v", l, err)
					}
					if o.cycles > 0 {
						break
					}
					if ctx.Err() != nil {
						t.Fatalf("%+v: not one cycle", l)
					}
				}
			}
		})
	}
}

// The counter finds out a lock that lets everybody in, or the test above would prove
// nothing.
func TestALockThatExcludesNobodyIsFoundOut(t *testing.T) {
	free := session{lock: func(string, int) (grab, error) {
		return func(context.Context) (func() error, error) { return func() error { return nil }, nil }, nil
	}}
	l := load{sessions: 1, locks: 1, workers: 4, period: 200 * time.Millisecond, hold: time.Millisecond}
	if _, err := l.run(t.Context(), []session{free}, "free", true); !errors.Is(err, errOverlap) {
		t.Errorf("got error %v; want %v", err, errOverlap)
	}
	var mu sync.Mutex
	mutex := session{lock: func(string, int) (grab, error) {
		return func(context.Context) (func() error, error) {
			mu.Lock()
			return func() error { mu.Unlock(); return nil }, nil
		}, nil
	}}
	o, err := l.run(t.Context(), []session{mutex}, "mutex", true)
	if err != nil || o.cycles == 0 || o.handoff == 0 {
		t.Errorf("a lock that excludes: got %+v, %v", o, err)
	}
}

func TestACrowdThatIsNotExcludedIsFoundOut(t *testing.T) {
	var released sync.WaitGroup
	released.Add(1)
	takes := 0
	c := libraryCrowd(t, func(context.Context) (session, error) {
		return session{
			lock: func(string, int) (grab, error) {
				takes++
				holder := takes == 1
				return func(context.Context) (func() error, error) {
					return func() error {
						if !holder {
							released.Done()
						}
						return nil
					}, nil
				}, nil
			},
			close: func() {},
		}, nil
	})
	must(t, c.join(t.Context(), "free", 1))
	released.Wait()
	if _, err := c.drain(t.Context()); !errors.Is(err, errOverlap) {
		t.Errorf("got error %v; want %v", err, errOverlap)
	}
}
