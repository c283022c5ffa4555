//go:build linux

package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast"
	"holdfast/zk"
)

// The names of the contestants, as the table has them.
const (
	oursOnApache   = "holdfast"
	oursOnOurs     = "holdfast on holdfast serve"
	oursLocal      = "holdfast, WithLocalHandoff"
	goZooKeeper    = "go-zookeeper"
	curator        = "Curator"
	kazoo          = "kazoo"
	etcdMutex      = "etcd"
	redsyncMutex   = "redis + redsync"
	twoWrites      = "create + delete, bare"
	deleteToEvent  = "delete → event, bare"
	twoSyncs       = "2 × append + fdatasync"
	oursOnFile     = "holdfast on file://, a second process"
	oursHosting    = "holdfast on file://, the host's own process"
	beforeOnOurs   = "holdfast serve before"
	beforeOnFile   = "file:// before, a second process"
	oursOnApacheIn = "holdfast on Apache ZooKeeper" // beside oursOnOurs
)

// localTurns is how often the lock goes from one goroutine to the next before it goes back
// to the ensemble.
const localTurns = 1000

// rows is the table of docs/explanation/benchmarks.md, with the goals of the issue.
var rows = []row{
	{
		number: 1, name: "uncontended", work: "lock + unlock, nobody else; one Apache ZooKeeper", units: []string{"cycles/s"},
		goals: fixed([]goal{{than: goZooKeeper, atLeast: 1.4}, {than: curator, atLeast: 2}, {than: kazoo, atLeast: 3}, {than: twoWrites, atMost: 1.1}}),
		sides: loads(load{sessions: 1, locks: 1, workers: 1, period: 500 * time.Millisecond}, oursOnApache, goZooKeeper, curator, kazoo, twoWrites),
	},
	{
		number: 2, name: "handoff", work: "handoff (Unlock called → next Lock returned), 16 sessions, each holds for 2 ms; one Apache ZooKeeper", units: []string{"µs"},
		goals: fixed([]goal{{than: goZooKeeper, atMost: 0.65}, {than: curator, atMost: 0.5}, {than: deleteToEvent, atMost: 1.15}}),
		// The holder waits until the others are back in line. So the row times the handoff alone.
		sides: loads(load{sessions: 16, locks: 1, workers: 16, period: 800 * time.Millisecond, hold: 2 * time.Millisecond},
			oursOnApache, goZooKeeper, curator, deleteToEvent),
	},
	{
		number: 2, name: "handoff-at-once", work: "handoff, 16 sessions, each releases at once; one Apache ZooKeeper", units: []string{"µs"},
		goals: fixed([]goal{{than: goZooKeeper}, {than: curator}, {than: deleteToEvent}}),
		// The last holder joins again while the next one takes the lock.
		sides: loads(load{sessions: 16, locks: 1, workers: 16, period: 800 * time.Millisecond},
			oursOnApache, goZooKeeper, curator, deleteToEvent),
	},
	{
		number: 3, name: "locks64", work: "64 locks through one session; one Apache ZooKeeper", units: []string{"cycles/s"},
		goals: fixed([]goal{{than: goZooKeeper, atLeast: 2}, {than: curator, atLeast: 2}}),
		sides: loads(load{sessions: 1, locks: 64, workers: 64, period: 500 * time.Millisecond}, oursOnApache, goZooKeeper, curator),
	},
	{
		number: 4, name: "drain", work: "a crowd waits for one lock, 16 sessions, and drains", units: []string{"handoffs/s", "joins/s", "B/handoff"},
		goals: drainGoals, sides: drainSides,
	},
	{
		number: 5, name: "goroutines256", work: "256 goroutines of one process on one lock", units: []string{"cycles/s", "handoffs/s"},
		goals: fixed([]goal{{than: goZooKeeper, atLeast: 100}, {than: etcdMutex, atLeast: 100}, {than: redsyncMutex, atLeast: 100}, {than: oursOnApache}}),
		sides: loads(load{sessions: 1, locks: 1, workers: 256, period: 800 * time.Millisecond}, oursLocal, oursOnApache, goZooKeeper, etcdMutex, redsyncMutex),
	},
	{
		number: 6, name: "durable-uncontended", work: "lock + unlock, nobody else; every service on this disk", units: []string{"cycles/s"},
		goals: fixed([]goal{{than: oursOnApacheIn, atLeast: 1.3}, {than: redsyncMutex, atLeast: 1}, {than: etcdMutex, atLeast: 2.5}, {than: twoSyncs, atMost: 1.6}, {than: beforeOnOurs, atLeast: 0.95}}),
		sides: loadsBeside(load{sessions: 1, locks: 1, workers: 1, period: 500 * time.Millisecond}, []string{oursOnOurs, oursOnApacheIn, redsyncMutex, etcdMutex, twoSyncs}, beforeOnOurs),
	},
	{
		number: 7, name: "durable-locks64", work: "64 locks through one session; every service on this disk", units: []string{"cycles/s"},
		goals: fixed([]goal{{than: oursOnApacheIn, atLeast: 4}, {than: redsyncMutex, atLeast: 2}, {than: etcdMutex}, {than: beforeOnOurs, atLeast: 0.95}}),
		sides: loadsBeside(load{sessions: 1, locks: 64, workers: 64, period: 500 * time.Millisecond}, []string{oursOnOurs, oursOnApacheIn, redsyncMutex, etcdMutex}, beforeOnOurs),
	},
	{
		number: 8, name: "durable-sessions16", work: "16 sessions, one lock; every service on this disk", units: []string{"cycles/s", "handoffs/s", "µs"},
		goals: fixed([]goal{{than: oursOnApacheIn, atLeast: 1}, {than: goZooKeeper, atLeast: 1}, {than: curator, atLeast: 1}, {than: redsyncMutex, atLeast: 1},
			{unit: "handoffs/s", than: redsyncMutex}, {than: etcdMutex, atLeast: 1}}),
		sides: loads(load{sessions: 16, locks: 1, workers: 16, period: 800 * time.Millisecond},
			oursOnOurs, oursOnApacheIn, goZooKeeper, curator, redsyncMutex, etcdMutex),
	},
	{
		number: 9, name: "memory", work: "memory per waiting lock", units: []string{clientBytes, heapBytes, serverBytes},
		goals: memoryGoals, sides: memorySides,
	},
	{
		number: 10, name: "growth", work: "one lock passed on, with so many locks held, or waiters in line", units: []string{"cycles/s"},
		goals: growthGoals, sides: growthSides,
	},
	{
		number: 11, name: "file", work: "lock + unlock, nobody else; file:// from a second process", units: []string{"cycles/s"},
		goals: fixed([]goal{{than: twoSyncs, atLeast: 1.8}, {than: redsyncMutex, atLeast: 2.5}, {than: etcdMutex, atLeast: 5}, {than: beforeOnFile, atLeast: 0.95}}),
		sides: loadsBeside(load{sessions: 1, locks: 1, workers: 1, period: 500 * time.Millisecond}, []string{oursOnFile, twoSyncs, redsyncMutex, etcdMutex}, beforeOnFile),
	},
	{
		number: 12, name: "file-own", work: "lock + unlock, nobody else; file:// in the host's own process", units: []string{"cycles/s"},
		goals: fixed([]goal{{than: twoSyncs, atLeast: 5}}),
		sides: loads(load{sessions: 1, locks: 1, workers: 1, period: 500 * time.Millisecond}, oursHosting, twoSyncs),
	},
}

// fixed are goals that do not depend on flags.
func fixed(goals []goal) func() []goal { return func() []goal { return goals } }

// loads are the sides of a row whose contestants all bear one load.
func loads(l load, names ...string) func(tb testing.TB) []side {
	return func(tb testing.TB) []side {
		if *quick {
			l.period /= 4
		}
		var sides []side
		for _, name := range names {
			bear := contestant(tb, name)
			prefix := fmt.Sprintf("%s-%d-%d", slug(name), l.sessions, l.workers)
			sides = append(sides, side{name, func(ctx context.Context) (figures, error) {
				o, err := bear(ctx, l, prefix)
				return o.figures(l), err
			}})
		}
		return sides
	}
}

// loadsBeside is loads with contestants of an earlier commit, if there is one.
func loadsBeside(l load, names []string, earlier ...string) func(tb testing.TB) []side {
	return func(tb testing.TB) []side {
		if *before != "" {
			names = append(names, earlier...)
		}
		return loads(l, names...)(tb)
	}
}

// contestant starts what the name stands for.
func contestant(tb testing.TB, name string) func(ctx context.Context, l load, prefix string) (tally, error) {
	switch name {
	case oursOnApache, oursOnApacheIn:
		return library(tb, openOurs(benchApache.get(tb).URL()), true)
	case oursOnOurs:
		return library(tb, openOurs(benchHoldfast.get(tb).URL()), true)
	case oursLocal:
		return library(tb, openOurs(benchApache.get(tb).URL(), holdfast.WithLocalHandoff(localTurns)), true)
	case goZooKeeper:
		return library(tb, openGoZooKeeper(benchApache.get(tb).Addrs()[0]), true)
	case curator:
		benchApache.get(tb)
		return benchCurator.get(tb).run
	case kazoo:
		benchApache.get(tb)
		return benchKazoo.get(tb).run
	case etcdMutex:
		return library(tb, openEtcd(benchEtcd.get(tb).Addr()), true)
	case redsyncMutex:
		return library(tb, openRedsync(benchRedis.get(tb).Addr()), true)
	case twoWrites:
		return library(tb, openTwoWrites(benchApache.get(tb).URL()), false)
	case twoSyncs:
		return library(tb, openDisk(tb), false)
	case oursOnFile:
		return library(tb, openLocal(tb, holdfastBin(tb)), true)
	case oursHosting:
		return library(tb, openLocal(tb, ""), true)
	case beforeOnOurs:
		return library(tb, openOurs(benchBefore.get(tb).URL()), true)
	case beforeOnFile:
		return library(tb, openLocal(tb, *before), true)
	case deleteToEvent:
		return bareHandoff(tb, benchApache.get(tb).URL())
	}
	tb.Fatalf("no contestant %q", name)
	return nil
}

// library runs loads on sessions that open makes, as many as are needed and none twice.
func library(tb testing.TB, open func(ctx context.Context) (session, error), checked bool) func(ctx context.Context, l load, prefix string) (tally, error) {
	var sessions []session
	tb.Cleanup(func() { together(len(sessions), func(i int) error { sessions[i].close(); return nil }) })
	return func(ctx context.Context, l load, prefix string) (tally, error) {
		for len(sessions) < l.sessions {
			s, err := open(ctx)
			if err != nil {
				return tally{}, err
			}
			sessions = append(sessions, s)
		}
		return l.run(ctx, sessions, prefix, checked)
	}
}

// bareHandoff is what no handoff on ZooKeeper can do without: a node is deleted by one
// session, and another, which watches it, is told. It rests as long in between.
func bareHandoff(tb testing.TB, url string) func(ctx context.Context, l load, prefix string) (tally, error) {
	ends := [2]*zk.Client{}
	for i := range ends {
		ends[i] = dialURL(tb, url, func(cfg *zk.Config) { cfg.SessionTimeout = benchTimeout })
	}
	return func(ctx context.Context, l load, prefix string) (tally, error) {
		var took []time.Duration
		path := "/" + prefix
		for end := time.Now().Add(l.period); time.Now().Before(end); {
			if _, _, err := ends[0].Create(ctx, path, nil, zk.Ephemeral); err != nil {
				return tally{}, err
			}
			_, _, watch, err := ends[1].GetW(ctx, path)
			if err != nil {
				return tally{}, err
			}
			time.Sleep(l.hold)
			gone := make(chan error, 1)
			called := time.Now()
			go func() { gone <- ends[0].Delete(ctx, path, zk.AnyVersion) }()
			select {
			case <-watch.C:
				took = append(took, time.Since(called))
			case <-ctx.Done():
				return tally{}, context.Cause(ctx)
			}
			if err := <-gone; err != nil {
				return tally{}, err
			}
		}
		return tally{cycles: len(took), changes: len(took), handoff: medianOf(took)}, nil
	}
}

// slug makes a name fit for a path and for a benchmark's unit.
func slug(name string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '-'
	}, name), "-")
}
