package chaos_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"holdfast"
	"holdfast/zk"
)

// leadRunners are runners that use Election.Lead. A Lead that has returned had a reason: its function
// returned before its term was lost, or the context has ended. What Lead does is drawn from numbers of its
// own, so that worlds without leadRunners stay as they are.
type leadRunners struct{ *runners }

// inviteLeaders starts leadRunners in one world of sixteen.
func (w *world) inviteLeaders(ctx context.Context, guests *sync.WaitGroup) {
	if rand.New(rand.NewPCG(w.seed, 500)).IntN(16) != 0 {
		return
	}
	r := leadRunners{&runners{world: w, path: "/leads", inside: make(map[int]run)}}
	for i, c := range w.clients {
		rng := rand.New(rand.NewPCG(w.seed, uint64(3500+i)))
		guests.Go(func() { r.run(ctx, c, rng) })
	}
}

// run is one of them.
func (r leadRunners) run(ctx context.Context, c *client, rng *rand.Rand) {
	for ctx.Err() == nil && !r.draining.Load() {
		(&worker{}).sleep(ctx, time.Duration(rng.ExpFloat64()*float64(r.timeout)))
		once, cancel := context.WithTimeout(ctx, time.Duration(rng.ExpFloat64()*float64(10*r.timeout)))
		done, terms := false, 0
		var opts []holdfast.Option
		if r.seed%32 < 16 { // candidates with preferences, which hand over to each other
			opts = append(opts, holdfast.WithPreference(c.number%3, r.timeout/2))
		}
		err := holdfast.NewElection(c.zk.Load(), r.path, opts...).Lead(once, []byte("leader"), func(held context.Context) error {
			terms++
			r.enter(c.number, run{held, c.session.Load()})
			defer r.leave(c.number)
			(&worker{}).sleep(held, time.Duration(rng.ExpFloat64()*float64(r.timeout)))
			done = held.Err() == nil
			return context.Cause(held)
		})
		switch {
		case once.Err() != nil, errors.Is(err, zk.ErrClosed): // the client was killed
		case done && (err == nil || errors.Is(err, holdfast.ErrLost)): // in the latter case too late to resign
		default:
			r.found("lead", r.path, "it has returned after %d terms, the last one led to its end: %v: %v", terms, done, err)
		}
		cancel()
	}
}
