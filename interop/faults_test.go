//go:build unix

package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zk"
)

// Every operation of our client, over and over, while the server that it is connected to
// is killed, stopped and cut off from the others, as a follower and as the leader. What
// became of a call whose answer was lost is found out by the rules that the client
// states: MayHaveHappened and SafeToRetry (drivers_test.go).

// faultTimeout is the session timeout under faults.
const faultTimeout = 25 * time.Second

// A driver does one thing over and over, with a client of its own.
type driver struct {
	name  string
	round func(n int) error // set up by the table; n counts from 0
	ctx   context.Context
	gate  *gate
	c     operations // a client, or its session
	s     *zk.Session
	dir   string
	mine  []zk.ACL        // of what it creates; nil: open to all
	woke  chan<- struct{} // gets a token when one of the fields below has changed, if it has room

	mu     sync.Mutex
	server string // that the session is attached to
	since  int    // rounds begun and ended since then
	rounds int
	moves  int // how often it was attached again
}

// newDriver is one that anybody could be, or one that uses its session and owns its nodes.
func newDriver(ctx context.Context, t *testing.T, z *peers.ZooKeeper, name string, identified bool, woke chan<- struct{}) *driver {
	d := &driver{name: name, ctx: ctx, gate: newGate(), woke: woke, dir: "/" + strings.ReplaceAll(name, " ", "-")}
	c := dialURL(t, z.URL()+where(t), func(cfg *zk.Config) {
		cfg.CreateChroot, cfg.Dial, cfg.SessionTimeout = true, d.gate.dial, faultTimeout
		if identified {
			cfg.Auth = []zk.Auth{zk.DigestAuth("bob", planted)}
		}
		cfg.Trace = &zk.Trace{ConnectDone: func(server string, _ time.Duration, err error) {
			if err == nil {
				d.attached(server)
			}
		}}
	})
	var err error
	d.s, err = c.Session(ctx)
	must(t, err)
	if d.c = c; identified {
		d.c, d.mine = d.s, ours
	}
	return d
}

func (d *driver) attached(server string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.server != "" {
		d.moves++
	}
	d.server, d.since = server, -1 // the round that is under way does not count
	d.wake()
}

func (d *driver) wake() {
	select {
	case d.woke <- struct{}{}:
	default:
	}
}

// drive goes on until the context ends.
func (d *driver) drive(ctx context.Context) error {
	// The pace leaves the servers room to recover.
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	for n := 0; ctx.Err() == nil; n++ {
		if err := d.round(n); err != nil {
			return fmt.Errorf("%s, round %d: %w", d.name, n, err)
		}
		d.mu.Lock()
		d.rounds++
		d.since++
		d.wake()
		d.mu.Unlock()
		<-pace.C
	}
	return nil
}

// settled is the server, and whether rounds have been made there from begin to end.
func (d *driver) settled() (server string, working bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.server, d.since > 0
}

func TestEveryOperationUnderFaults(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{
		Servers: 3, Relays: true,
		// A server may elect one that has been stopped, and gives up on it after initLimit
		// (in ticks); no session shall end meanwhile.
		Settings: []string{"initLimit=10", fmt.Sprint("maxSessionTimeout=", faultTimeout.Milliseconds())},
	})
	closing(t, z, err)

	woke := make(chan struct{}, 1)
	ctx, cancel = context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var all []*driver
	for name, begin := range drivers {
		for _, identified := range []bool{false, true} {
			d := newDriver(ctx, t, z, name, identified, woke)
			round, err := begin(d)
			must(t, err)
			d.round = round
			all = append(all, d)
		}
	}
	running, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for _, d := range all {
		wg.Go(func() {
			if err := d.drive(running); err != nil {
				t.Error(err)
			}
			d.wake() // whoever waits for it need not
		})
	}
	// await returns when every client is attached where it should be and works there.
	await := func(ctx context.Context, what string, good func(server string) bool) {
		t.Helper()
		for {
			i := slices.IndexFunc(all, func(d *driver) bool {
				server, working := d.settled()
				return !working || !good(server)
			})
			if t.Failed() || i < 0 {
				return
			}
			select {
			case <-woke:
			case <-ctx.Done():
				server, working := all[i].settled()
				t.Fatalf("%s: %s is at %s, working: %t", what, all[i].name, server, working)
			}
		}
	}

	for _, f := range []struct {
		name string
		hurt func(z *peers.ZooKeeper, i int) error
		heal func(ctx context.Context, z *peers.ZooKeeper, i int) error
	}{
		{"killed", (*peers.ZooKeeper).Kill, restart},
		{"stopped", (*peers.ZooKeeper).Stop, resume},
		{"cut off", part, heal},
	} {
		for _, role := range []string{"follower", "leader"} {
			ctx, cancel := context.WithTimeout(ctx, stepTime)
			defer cancel()
			what := role + " " + f.name
			i, err := z.Leader(ctx)
			must(t, err)
			if role == "follower" {
				i = (i + 1) % 3
			}
			victim := z.Addrs()[i]
			for _, d := range all {
				d.gate.let(only(victim))
				if server, _ := d.settled(); server != victim {
					d.gate.cut()
				}
			}
			await(ctx, what+", before", only(victim))
			for _, d := range all {
				d.gate.let(anywhere)
			}
			began := time.Now()
			must(t, f.hurt(z, i))
			await(ctx, what, func(server string) bool { return server != victim })
			took := time.Since(began)
			must(t, f.heal(ctx, z, i))
			if t.Failed() {
				t.Fatalf("%s", what)
			}
			t.Logf("%s: all have moved and work after %v", what, took.Round(time.Millisecond))
		}
	}
	stop()
	wg.Wait()
	rounds, moves := 0, 0
	for _, d := range all {
		if err := context.Cause(d.s.Context()); err != nil {
			t.Errorf("%s: the session did not survive: %v", d.name, err)
		}
		rounds, moves = rounds+d.rounds, moves+d.moves
	}
	measured(t, "%d clients, %d rounds, 6 faults felt by each, %d connections resumed, no session lost", len(all), rounds, moves)
}

func part(z *peers.ZooKeeper, i int) error { z.Cut(i); return nil }

func heal(ctx context.Context, z *peers.ZooKeeper, i int) error {
	z.Heal(i)
	return z.AwaitReady(ctx, i)
}
