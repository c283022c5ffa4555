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

	"holdfast/zk"
)

// A driver does one thing over and over, with its own client.
type driver struct {
	name    string
	round   func(n int) error // set by the table; n counts from 0
	ctx     context.Context
	members int // size of the ensemble, as it reports
	gate    *gate
	c       operations // a client, or its session
	s       *zk.Session
	dir     string
	mine    []zk.ACL        // ACL of its nodes; nil: open to all
	woke    chan<- struct{} // gets a token when one of the fields below changes, if it has room

	mu     sync.Mutex
	server string // the server that the session is attached to
	since  int    // rounds begun and ended since then
	rounds int
	moves  int // number of re-attaches
}

// newDriver returns a driver that any client could be, or one that uses its session and owns its nodes.
func newDriver(ctx context.Context, t *testing.T, url string, members int, name string, identified bool, woke chan<- struct{}) *driver {
	d := &driver{name: name, ctx: ctx, members: members, gate: newGate(), woke: woke, dir: "/" + strings.ReplaceAll(name, " ", "-")}
	c := dialURL(t, url+where(t), func(cfg *zk.Config) {
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
	d.server, d.since = server, -1 // the current round does not count
	d.wake()
}

func (d *driver) wake() {
	select {
	case d.woke <- struct{}{}:
	default:
	}
}

// drive runs until the context ends.
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

// settled returns the server, and whether a whole round has been made there.
func (d *driver) settled() (server string, working bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.server, d.since > 0
}

// moved returns how often the session was attached again.
func (d *driver) moved() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.moves
}

// A fleet is all drivers at work.
type fleet struct {
	drivers []*driver
	woke    chan struct{}
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

// launch starts two of each driver. They stop with the test at the latest.
func launch(ctx context.Context, t *testing.T, url string, members int) *fleet {
	t.Helper()
	f := &fleet{woke: make(chan struct{}, 1)}
	for name, begin := range drivers {
		for _, identified := range []bool{false, true} {
			d := newDriver(ctx, t, url, members, name, identified, f.woke)
			round, err := begin(d)
			must(t, err)
			d.round = round
			f.drivers = append(f.drivers, d)
		}
	}
	running, stop := context.WithCancel(ctx)
	f.stop = stop
	t.Cleanup(func() { f.stop(); f.wg.Wait() }) // before the clients are closed
	for _, d := range f.drivers {
		f.wg.Go(func() {
			if err := d.drive(running); err != nil {
				t.Error(err)
			}
			d.wake() // wakes a waiter, which need not wait any more
		})
	}
	return f
}

// await returns when every driver works on its server, as wanted. It ends the test if one of
// them has failed.
func (f *fleet) await(ctx context.Context, t *testing.T, what string, good func(*driver) bool) {
	t.Helper()
	for {
		i := slices.IndexFunc(f.drivers, func(d *driver) bool {
			_, working := d.settled()
			return !good(d) || !working
		})
		switch {
		case t.Failed():
			t.Fatal(what)
		case i < 0:
			return
		}
		select {
		case <-f.woke:
		case <-ctx.Done():
			server, working := f.drivers[i].settled()
			t.Fatalf("%s: %s is at %s, working: %t", what, f.drivers[i].name, server, working)
		}
	}
}

// land stops the drivers, whose sessions must all have survived, and returns a summary.
func (f *fleet) land(t *testing.T) string {
	t.Helper()
	f.stop()
	f.wg.Wait()
	rounds, moves := 0, 0
	for _, d := range f.drivers {
		if err := context.Cause(d.s.Context()); err != nil {
			t.Errorf("%s: the session did not survive: %v", d.name, err)
		}
		rounds, moves = rounds+d.rounds, moves+d.moves
	}
	return fmt.Sprintf("%d clients, %d rounds, %d connections resumed, no session lost", len(f.drivers), rounds, moves)
}
