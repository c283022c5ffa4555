package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/deadlock"
	"holdfast/layout"
	"holdfast/zk"
)

// TestSimulationOfDeadlocks runs worlds in which every client takes several locks in random orders, beside the other workers.
// The deadlocks end, since waits have deadlock.Detect, and a wait that never ends is reported. In worlds without faults, each
// victim is in a cycle, and each cycle has one victim.
func TestSimulationOfDeadlocks(t *testing.T) {
	simulateOthers(t, options{Deadlocks: true}, fewSeeds/4, func(s *summary, n int) {
		s.mustHave(t, n, "all locks", "victims", "cycles that were checked")
	})
}

const diningRoot = "/dining"

// diners are the workers that take several locks in random orders, one with each client.
type diners struct {
	*world

	mu      sync.Mutex // guards the fields below
	holders map[string]*diner
	figures map[string]int
}

// A diner is one of them.
type diner struct {
	*diners
	client *client
	rng    *rand.Rand
	yields bool
	waits  string // the lock that it waits for, or ""
}

// startDiners starts the workers. The returned function notes what they did.
func (w *world) startDiners(ctx context.Context, workers *sync.WaitGroup) (check func()) {
	w.create(context.Background(), diningRoot)
	all := &diners{world: w, holders: make(map[string]*diner), figures: make(map[string]int)}
	for i, c := range w.clients {
		d := &diner{diners: all, client: c, rng: rand.New(rand.NewPCG(w.seed, uint64(7000+i))), yields: i > 0} // one is a stranger
		workers.Go(func() {
			for ctx.Err() == nil && !w.draining.Load() {
				(&worker{}).sleep(ctx, time.Duration(d.rng.ExpFloat64()*float64(300*time.Millisecond)))
				order := d.rng.Perm(3)
				d.take(ctx, d.client.zk.Load(), order[:2+d.rng.IntN(2)])
			}
		})
	}
	return func() { w.onces = all.figures }
}

// lock returns the lock with a number.
func (d *diner) lock(c *zk.Client, i int) (string, holdfast.Locker) {
	path := fmt.Sprintf("%s/%d", diningRoot, i)
	opts := []holdfast.Option{holdfast.WithOwner(fmt.Sprint(d.client.number))}
	if d.yields {
		opts = append(opts, deadlock.Detect())
	}
	switch i {
	case 0:
		return path, holdfast.NewRWMutex(c, path, append(opts, holdfast.WithLayout(layout.Kazoo))...)
	case 1:
		return path, holdfast.NewSemaphore(c, path, 3, opts...).Locker(2) // no two at a time
	}
	return path, holdfast.NewMutex(c, path, opts...)
}

// take acquires the locks in their order, holds all of them for a moment, and releases them.
func (d *diner) take(ctx context.Context, c *zk.Client, order []int) {
	if len(order) == 0 {
		d.count("all locks")
		(&worker{}).sleep(ctx, time.Duration(d.rng.IntN(200))*time.Millisecond)
		return
	}
	path, lock := d.lock(c, order[0])
	d.waiting(path)
	h, err := lock.Lock(ctx)
	d.waiting("")
	if err != nil {
		d.failed(path, err)
		return
	}
	d.mu.Lock()
	d.holders[path] = d
	d.mu.Unlock()
	under, cancel := context.WithCancelCause(h.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	(&worker{}).sleep(under, time.Duration(d.rng.IntN(300))*time.Millisecond)
	if under.Err() == nil {
		d.take(under, c, order[1:])
	}
	stop()
	cancel(nil)
	d.mu.Lock()
	if d.holders[path] == d {
		delete(d.holders, path)
	}
	d.mu.Unlock()
	_ = h.Unlock()
}

// waiting notes for what the diner waits.
func (d *diner) waiting(path string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waits = path
}

func (d *diners) count(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.figures[what]++
}

// failed checks the error of a wait.
func (d *diner) failed(path string, err error) {
	if !errors.Is(err, holdfast.ErrDeadlock) {
		if !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, zk.ErrClosed) && !errors.Is(err, context.Canceled) {
			d.found("error", path, "%v", err)
		}
		return
	}
	d.count("victims")
	d.tell("client %d: %v", d.client.number, err)
	if !d.yields {
		d.found("deadlock", path, "a wait without the option gives up: %v", err)
	}
	if !d.calm {
		return
	}
	d.count("cycles that were checked")
	d.mu.Lock()
	defer d.mu.Unlock()
	at := path
	for range len(d.clients) + 1 {
		holder := d.holders[at]
		switch {
		case holder == d:
			return
		case holder == nil || holder.waits == "":
			d.figures["false"]++
			go d.found("deadlock", path, "client %d gives up, and there is no cycle: %v", d.client.number, err)
			return
		}
		at = holder.waits
	}
}
