package chaos_test

import (
	"context"
	"errors"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/layout"
	"holdfast/reserve"
	"holdfast/zk"
)

const scenePath = locksRoot + "/a"

// scenes are what TestExplore runs.
var scenes = []scene{
	{
		name: "mutex", clients: 3, locks: oneLock(plainMutex),
		play: []func(*player){useTwice, useFirst, useFirst},
	},
	{
		name: "session change", clients: 3, locks: oneLock(plainMutex),
		play: []func(*player){useFirst, useFirst, func(p *player) {
			p.sleep(context.Background(), 2*slot)
			p.expireClient(p.client)
			p.use(p.lock(p.lockers[0]))
		}},
	},
	{
		name: "local line and keep", clients: 2, locks: oneLock(func(c *zk.Client, w *world) []locker {
			const handoffs, idle = 1, 100 * time.Millisecond
			m := holdfast.NewMutex(c, scenePath, w.options(holdfast.WithLocalHandoff(handoffs), holdfast.WithKeep(idle))...)
			op := chaos.Op{Lock: scenePath, Type: chaos.Mutex, Handoff: handoffs, Keep: idle}
			return []locker{{parts: []chaos.Op{op}, lock: m.Lock, try: m.TryLock}}
		}),
		play: []func(*player){useFirst, useFirst, useFirst, func(p *player) { p.use(p.tries(p.lockers[0])) }},
	},
	{
		name: "downgrade", clients: 3, locks: oneLock(func(c *zk.Client, w *world) []locker {
			m := holdfast.NewRWMutex(c, scenePath, w.options()...)
			read, write := chaos.Op{Lock: scenePath, Type: chaos.ReadWrite, Shared: true}, chaos.Op{Lock: scenePath, Type: chaos.ReadWrite}
			return []locker{
				{parts: []chaos.Op{write}, lock: m.Lock, try: m.TryLock, inner: m.RLock, innerOp: read},
				{parts: []chaos.Op{read}, lock: m.RLock, try: m.TryRLock},
			}
		}),
		play: []func(*player){stepDown, useSecond, useFirst},
	},
	{
		name: "semaphore", clients: 3, locks: oneLock(func(c *zk.Client, w *world) []locker {
			s := holdfast.NewSemaphore(c, scenePath, 2, w.options()...)
			return permits(2, func(n int) (lock, try func(context.Context) (*holdfast.Hold, error)) {
				return s.Locker(n).Lock, s.Locker(n).TryLock
			})
		}),
		play: []func(*player){useFirst, useSecond, useFirst},
	},
	{
		name: "slots", clients: 3, locks: func(w *world) []lockSpec {
			spec := plainSpec(w, func(c *zk.Client, w *world) []locker {
				s := holdfast.NewSlots(c, scenePath, 3, w.options()...)
				return permits(3, func(n int) (lock, try func(context.Context) (*holdfast.Hold, error)) {
					return func(ctx context.Context) (*holdfast.Hold, error) { return s.Acquire(ctx, n) },
						func(ctx context.Context) (*holdfast.Hold, error) { return s.TryAcquire(ctx, n) }
				})
			})
			spec.slots = &slotWishes{from: make(map[int64]int)}
			return []lockSpec{spec}
		},
		play: []func(*player){useFirst, useSecond, useSecond},
	},
	{
		name: "node lock", clients: 3, locks: func(w *world) []lockSpec {
			lock := scenePath + nodeLock
			return []lockSpec{{ids: []lockID{{lock, lock}}, path: lock, layout: layout.Curator, prompt: true, of: func(c *zk.Client) []locker {
				n := holdfast.NewNodeLock(c, lock, w.options()...)
				return []locker{{parts: []chaos.Op{{Lock: lock, Type: chaos.Mutex}}, lock: n.Lock, try: n.TryLock}}
			}}}
		},
		play: []func(*player){useFirst, useFirst, func(p *player) {
			p.use(p.tries(p.lockers[0]))
			p.use(p.lock(p.lockers[0]))
		}},
	},
	{
		name: "several", clients: 3, locks: func(w *world) []lockSpec {
			one, two := scenePath+"-1", scenePath+"-2"
			return []lockSpec{{ids: []lockID{{one, one}, {two, two}}, path: one, layout: layout.Curator, of: func(c *zk.Client) []locker {
				a, b := holdfast.NewMutex(c, one, w.options()...), holdfast.NewMutex(c, two, w.options()...)
				return together("", a, chaos.Op{Lock: one, Type: chaos.Mutex}, b, chaos.Op{Lock: two, Type: chaos.Mutex})
			}}}
		},
		play: []func(*player){useFirst, useFirst, func(p *player) { p.use(p.lock(p.lockers[2])) }},
	},
	{
		name: "election", clients: 3, locks: oneLock(func(c *zk.Client, w *world) []locker {
			e := holdfast.NewElection(c, scenePath, w.options()...)
			value := "worker x"
			lead := func(ctx context.Context) (*holdfast.Hold, error) { return e.Campaign(ctx, []byte(value)) }
			return []locker{{parts: []chaos.Op{{Lock: scenePath, Type: chaos.Election}}, lock: lead, election: e, value: &value}}
		}),
		play: []func(*player){useFirst, useFirst, func(p *player) {
			p.observe(context.Background(), p.lockers[0])
			p.use(p.lock(p.lockers[0]))
		}},
	},
	{
		name: "preference", clients: 3,
		begin: func(p *plan) func() {
			p.leaders = &runners{world: p.w, path: scenePath, inside: make(map[int]run)}
			return func() {}
		},
		play: []func(*player){leadOnce, leadOnce, leadOnce},
	},
	{
		name: "supersede", clients: 3, locks: func(w *world) []lockSpec {
			spec := plainSpec(w, func(c *zk.Client, w *world) []locker {
				op := chaos.Op{Lock: scenePath, Type: chaos.Mutex}
				m, n := holdfast.NewMutex(c, scenePath, w.options()...), holdfast.NewMutex(c, scenePath, w.options(holdfast.WithSupersede())...)
				return []locker{{parts: []chaos.Op{op}, lock: m.Lock, try: m.TryLock}, {parts: []chaos.Op{op}, lock: n.Lock, try: n.TryLock}}
			})
			spec.makesRoom = true
			return []lockSpec{spec}
		},
		play: []func(*player){useFirst, useSecond, useSecond},
	},
	{
		name: "reservation", clients: 2, locks: oneLock(func(c *zk.Client, w *world) []locker {
			l := reserve.Locker(holdfast.NewMutex(c, scenePath, w.options()...))
			return []locker{{parts: []chaos.Op{{Lock: scenePath, Type: chaos.Mutex}}, lock: l.Lock, try: l.TryLock}}
		}),
		play: []func(*player){reserves, useFirst},
	},
	{
		name: "detached", clients: 3,
		begin: func(p *plan) func() {
			p.lasting = &lasting{world: p.w, kind: detachedOnes, figures: make(map[string]int)}
			p.w.create(context.Background(), lastingRoot)
			return p.lasting.check
		},
		play: []func(*player){detaches(0), detaches(1500 * time.Millisecond), func(p *player) {
			ctx, done := p.plan.call(p.client)
			claim := p.plan.lasting.acquire(ctx, p.client, p.plan.lasting.mutex(p.client), false)
			done()
			p.use(claim)
		}},
	},
	{name: "once", clients: 3, begin: beginOnce, play: []func(*player){callOnce(0), callOnce(0), callOnce(0)}},
	{name: "at most once", clients: 3, begin: beginOnce, play: []func(*player){callOnce(2), callOnce(2), callOnce(2)}},
}

// A way of a client to take locks in a world.
type lockersOf func(c *zk.Client, w *world) []locker

func plainSpec(w *world, of lockersOf) lockSpec {
	return lockSpec{
		ids: []lockID{{scenePath, scenePath}}, path: scenePath, layout: layout.Curator, prompt: true,
		of: func(c *zk.Client) []locker { return of(c, w) },
	}
}

func oneLock(of lockersOf) func(w *world) []lockSpec {
	return func(w *world) []lockSpec { return []lockSpec{plainSpec(w, of)} }
}

func plainMutex(c *zk.Client, w *world) []locker {
	m := holdfast.NewMutex(c, scenePath, w.options()...)
	return []locker{{parts: []chaos.Op{{Lock: scenePath, Type: chaos.Mutex}}, lock: m.Lock, try: m.TryLock}}
}

// permits returns lockers of one permit and of two.
func permits(limit int, of func(n int) (lock, try func(context.Context) (*holdfast.Hold, error))) (all []locker) {
	for n := 1; n <= 2; n++ {
		lock, try := of(n)
		all = append(all, locker{parts: []chaos.Op{{Lock: scenePath, Type: chaos.Semaphore, Limit: limit, Permits: n}}, lock: lock, try: try})
	}
	return all
}

func useFirst(p *player)  { p.use(p.lock(p.lockers[0])) }
func useSecond(p *player) { p.use(p.lock(p.lockers[1])) }

func useTwice(p *player) {
	useFirst(p)
	useFirst(p)
}

// stepDown takes the write side, then the read side, and releases the write side first.
func stepDown(p *player) {
	write := p.lockers[0]
	claim := p.lock(write)
	if claim == nil {
		return
	}
	reader := p.again(write, claim)
	p.sleep(claim.Context(), aWhile)
	p.free(claim)
	p.use(reader)
}

// reserves reserves the lock for longer than it holds it.
func reserves(p *player) {
	claim := p.lock(p.lockers[0])
	if claim == nil {
		return
	}
	ctx, done := p.plan.call(p.client)
	o := chaos.Op{Client: p.number, Kind: chaos.Reserve, Lock: scenePath, Token: claim.Token(), Lasts: time.Second, Call: p.log.Now(), Outcome: chaos.OK}
	if err := reserve.For(ctx, claim.Hold, o.Lasts); err != nil {
		o.Outcome = chaos.Unknown
		p.tell("player %d: reserve: %v", p.number, err)
	}
	done()
	o.Return = p.log.Now()
	p.log.Add(o)
	p.use(claim)
}

// detaches takes a detached lock, and releases it.
func detaches(expires time.Duration) func(*player) {
	return func(p *player) {
		ctx, done := p.plan.call(p.client)
		o, got, over := p.plan.lasting.detach(ctx, p.client, expires, false)
		done()
		if got.ID != "" {
			p.sleep(context.Background(), aWhile)
			p.plan.lasting.release(p.client, o, got.ID, over)
		}
	}
}

// leadOnce leads for a moment, and hands over to candidates with a larger number.
func leadOnce(p *player) {
	ctx, done := p.plan.call(p.client)
	defer done()
	opts := p.options(holdfast.WithPreference(p.number, 2*aWhile))
	err := holdfast.NewElection(p.of, scenePath, opts...).Lead(ctx, []byte("leader"), func(held context.Context) error {
		p.plan.leaders.enter(p.number, run{held, p.client.session.Load()})
		defer p.plan.leaders.leave(p.number)
		p.sleep(held, 5*aWhile)
		return context.Cause(held)
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, holdfast.ErrLost) { // as it gives up, its error may be of the function
		p.refused(ctx, locker{parts: []chaos.Op{{Lock: scenePath}}}, false, err)
	}
}

func beginOnce(p *plan) (check func()) {
	p.once = &onces{world: p.w, keys: make(map[string]*onceKey), figures: make(map[string]int), seen: make(map[string]int)}
	p.w.create(context.Background(), oncesRoot)
	return p.once.check
}

// callOnce calls a Once for a key.
func callOnce(way int) func(*player) {
	return func(p *player) {
		ctx, done := p.plan.call(p.client)
		defer done()
		p.plan.once.call(ctx, p.client, p.rng, p.plan.once.key(onceWays[way], "a"))
	}
}
