package chaos_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/shards"
	"holdfast/zk"
)

// TestSimulationOfShards runs worlds in which every client has a worker of package shards as well, beside
// its other workers.
func TestSimulationOfShards(t *testing.T) {
	simulateOthers(t, options{Shards: true}, fewSeeds/2, func(s *summary, n int) {
		r := s.Results.Shards
		t.Logf("figure: %d seeds: %d calls for shards, %d ended with ErrMoving, %d with ErrLost; %d joins, %d leaves; the longest time without a worker was %v in a calm world", s.Seeds, r.Calls, r.Moved, r.Lost, r.Joins, r.Leaves, r.Gap)
		if r.Calls < 20*n || r.Moved < 2*n || r.Lost < n || r.Leaves < n {
			t.Error("too few to tell anything")
		}
	})
}

// sharded counts what the workers of shards did.
type sharded struct {
	Calls, Moved, Lost int
	Joins, Leaves      int
	Gap                time.Duration // the longest time in which a shard had no worker though some were present, in calm worlds
}

func (s *sharded) add(o sharded) {
	s.Calls += o.Calls
	s.Moved += o.Moved
	s.Lost += o.Lost
	s.Joins += o.Joins
	s.Leaves += o.Leaves
	s.Gap = max(s.Gap, o.Gap)
}

// A sharding is the shards of a world.
type sharding struct {
	*world
	path   string
	n      int
	settle time.Duration
	told   *audit // never complete: workers still have shards when it is checked

	mu      sync.Mutex // guards the fields below
	inside  map[int]*stint
	tokens  map[int]int64
	free    map[int]time.Time // since when nobody works on the shard
	present map[int]bool      // workers whose Run lasts
	crew    time.Time         // since when there is one; of no meaning if there is none
	did     sharded
}

// A stint is one call of a worker's function.
type stint struct {
	worker  int
	ctx     context.Context
	session int64
	token   int64
}

// inviteShards starts a worker of shards for each client. The returned functions check the shards once
// everything is whole again.
func (w *world) inviteShards(ctx context.Context, guests *sync.WaitGroup) (checks []func()) {
	rng := rand.New(rand.NewPCG(w.seed, 4000)) // not the world's: other worlds do not draw for this
	s := &sharding{
		world: w, path: "/shards", n: 1 + rng.IntN(16), settle: time.Duration(rng.IntN(3)) * 400 * time.Millisecond,
		told: newAudit(w), inside: make(map[int]*stint), tokens: make(map[int]int64), free: make(map[int]time.Time), present: make(map[int]bool),
	}
	w.sharding = s
	for i, c := range w.clients {
		rng := rand.New(rand.NewPCG(w.seed, uint64(4001+i)))
		guests.Go(func() { s.work(ctx, c, rng) })
	}
	return []func(){s.check}
}

// work joins and leaves. When the world drains, it joins for good.
func (s *sharding) work(ctx context.Context, c *client, rng *rand.Rand) {
	for ctx.Err() == nil {
		if !s.draining.Load() {
			(&worker{}).sleep(ctx, time.Duration(rng.ExpFloat64()*float64(s.timeout/4)))
		} else {
			(&worker{}).sleep(ctx, 10*time.Millisecond) // the client may have been killed just now
		}
		running, cancel := context.WithCancelCause(ctx)
		leave := time.AfterFunc(time.Duration(rng.ExpFloat64()*float64(3*s.timeout)), func() {
			if !s.draining.Load() {
				cancel(context.DeadlineExceeded)
			}
		})
		handover := time.Duration(rng.IntN(2)) * 2 * s.settle
		set := shards.New(c.zk.Load(), s.path, s.n, shards.WithSettle(s.settle), shards.WithHandover(handover), shards.WithLock(holdfast.WithObserver(s.told.observer())))
		s.joins(c.number)
		var mu sync.Mutex // rng is for one goroutine
		err := set.Run(running, func(held context.Context, shard shards.Shard) error {
			me := &stint{c.number, held, shard.Hold.SessionID(), shard.Token}
			s.begin(shard.Number, me)
			defer s.end(shard.Number, me)
			mu.Lock()
			slow, early := time.Duration(rng.ExpFloat64()*float64(100*time.Millisecond)), rng.IntN(8) == 0
			mu.Unlock()
			if early { // the worker keeps the shard
				<-held.Done()
				return nil
			}
			<-held.Done()
			(&worker{}).sleep(ctx, slow) // it takes a while to stop
			return context.Cause(held)
		})
		s.leaves(c.number)
		leave.Stop()
		switch {
		case running.Err() != nil && errors.Is(err, context.Cause(running)):
		case errors.Is(err, zk.ErrClosed): // the client was killed
		default:
			s.found("shards", s.path, "Run of client %d ended with %v", c.number, err)
		}
		cancel(nil)
	}
}

func (s *sharding) joins(worker int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.present) == 0 {
		s.crew = time.Now()
	}
	s.present[worker] = true
	s.did.Joins++
}

func (s *sharding) leaves(worker int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.present, worker)
	s.did.Leaves++
}

// begin checks that nobody else works on the shard. After a loss, the former worker may still work on it; it
// was told to stop.
func (s *sharding) begin(shard int, me *stint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	forced := s.endedByForce(me.session)
	if o := s.inside[shard]; o != nil && me.ctx.Err() == nil && !errors.Is(context.Cause(o.ctx), holdfast.ErrLost) && !forced && !s.endedByForce(o.session) {
		s.found("shard twice", s.path, "client %d works on shard %d beside client %d (%v)", me.worker, shard, o.worker, context.Cause(o.ctx))
	}
	if me.token <= s.tokens[shard] && !forced {
		s.found("shard token", s.path, "client %d has shard %d with token %d after %d", me.worker, shard, me.token, s.tokens[shard])
	}
	// Calm worlds have no faults but those of the admin.
	if free, ok := s.free[shard]; ok && s.calm && s.inside[shard] == nil {
		if s.crew.After(free) {
			free = s.crew
		}
		gap := now.Sub(free)
		s.did.Gap = max(s.did.Gap, gap)
		if bound := s.bound(); gap > bound && len(s.present) > 0 {
			s.found("shard forgotten", s.path, "nobody worked on shard %d for %v; want at most %v", shard, gap, bound)
		}
	}
	s.inside[shard], s.tokens[shard] = me, max(me.token, s.tokens[shard])
	s.did.Calls++
}

// bound is how long a shard may have no worker: the session of a leader and that of its owner end, the leave
// counts, and the shard moves.
func (s *sharding) bound() time.Duration { return 2*s.timeout + 4*s.tick + 2*s.settle + 2*time.Second }

func (s *sharding) end(shard int, me *stint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch cause := context.Cause(me.ctx); {
	case errors.Is(cause, shards.ErrMoving):
		s.did.Moved++
	case errors.Is(cause, holdfast.ErrLost):
		s.did.Lost++
	}
	if s.inside[shard] == me {
		delete(s.inside, shard)
		s.free[shard] = time.Now()
	}
}

// check waits until every shard has a worker and every worker its share. By now nothing fails, and all
// clients have joined.
func (s *sharding) check() {
	time.Sleep(s.bound())
	s.checkAssignment()
	s.mu.Lock()
	defer s.mu.Unlock()
	has := make(map[int]int)
	for i := range s.n {
		o := s.inside[i]
		if o == nil || o.ctx.Err() != nil {
			s.found("shard forgotten", s.path, "nobody works on shard %d of %d at the end", i, s.n)
			continue
		}
		has[o.worker]++
	}
	m := len(s.clients)
	for _, c := range s.clients {
		if n := has[c.number]; n < s.n/m || n > (s.n+m-1)/m {
			s.found("shard balance", s.path, "client %d has %d of %d shards among %d workers", c.number, n, s.n, m)
		}
	}
}

// checkAssignment asks for the plan. All clients are in it, and every shard is in one list. A worker that claims another
// number of shards is refused.
func (s *sharding) checkAssignment() {
	ctx, cancel := context.WithTimeout(context.Background(), s.bound())
	defer cancel()
	c := s.clients[0].zk.Load()
	workers, err := shards.New(c, s.path, s.n).Assignment(ctx)
	var all []int
	for _, w := range workers {
		if all = append(all, w.Shards...); w.Session == 0 {
			s.found("shard plan", s.path, "%+v is absent at the end", w)
		}
	}
	slices.Sort(all)
	if err != nil || len(workers) != len(s.clients) || len(all) != s.n || len(slices.Compact(all)) != s.n {
		s.found("shard plan", s.path, "%+v, %v; want %d shards and %d workers", workers, err, s.n, len(s.clients))
	}
	other := shards.New(c, s.path, s.n+1)
	if _, err := other.Assignment(ctx); !errors.Is(err, shards.ErrCount) {
		s.found("shard plan", s.path, "a plan for %d shards of %d: %v", s.n+1, s.n, err)
	}
	if err := other.Run(ctx, func(context.Context, shards.Shard) error { return nil }); !errors.Is(err, shards.ErrCount) {
		s.found("shard plan", s.path, "a worker of %d shards of %d: %v", s.n+1, s.n, err)
	}
}
