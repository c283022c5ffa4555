package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/zk"
)

// A scene is a few operations of a few clients.
type scene struct {
	name    string
	clients int
	locks   func(w *world) []lockSpec    // those that the players take
	begin   func(p *plan) (check func()) // prepares it, and checks it when everything is whole again; nil for most
	play    []func(p *player)            // what each player does; player i is at client i modulo clients
}

// A player does its part of a scene.
type player struct {
	*worker
	plan *plan
}

// An explored run is the outcome of one schedule of a scene.
type explored struct {
	result
	points []point
	calls  int    // that can be given up
	order  uint64 // a hash of what happened, without times
	unused schedule
}

// explore runs a scene by a schedule. A goroutine that does not end makes the bubble panic.
func explore(t *testing.T, s scene, of schedule, loud bool) (x explored) {
	cryptotest.SetGlobalRandom(t, 1)
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var w *world
	var p *plan
	synctest.Test(t, func(t *testing.T) {
		w = newScene(s, of)
		p = newPlan(w, of)
		p.loud = loud
		w.net.plan = p
		w.playScene(s, p)
	})
	x = explored{result: w.judge(), points: p.points, calls: p.begun, unused: p.todo}
	for _, o := range x.ops {
		fmt.Fprintln(p.order, o.Client, o.Kind, o.Lock, o.Outcome)
	}
	x.order = p.order.Sum64()
	return x
}

// newScene returns a world with one server and the clients of a scene.
func newScene(s scene, of schedule) *world {
	w := &world{
		seed: 1, rng: rand.New(rand.NewPCG(1, 0)), began: time.Now(), counters: make(map[string]*counted),
		tick: 500 * time.Millisecond, timeout: 4 * time.Second, calm: of.mild(), addrs: []string{"simulated:2181"},
	}
	w.audit = newAudit(w)
	w.log = chaos.NewLog(func() time.Duration { return time.Since(w.began) }, 1, nil)
	w.net = newNetwork(1, s.clients, 1)
	e := newEnsemble(1, w.tick, 1, 0)
	e.tell, e.reapEvery = w.tell, 10*time.Second
	w.many = &manyServers{ensemble: e, net: w.net}
	w.servers = w.many
	for _, ln := range w.net.lines {
		ln.region = near
	}
	return w
}

// quiet is how long the waiters may take for their turns when everything is whole again. It is less than
// queue.LookAgain, so no waiter is saved by its second look.
const quiet = 20 * time.Second

// playScene lets the players play, and checks what is left.
func (w *world) playScene(s scene, p *plan) {
	ctx := context.Background()
	w.servers.start()
	w.admin = w.dial(w.net.lines[s.clients], nil)
	for i := range s.clients {
		c := &client{number: i + 1, line: w.net.lines[i]}
		c.zk.Store(w.dial(c.line, w.follow(c)))
		w.clients = append(w.clients, c)
	}
	if s.locks != nil {
		w.locks = s.locks(w)
	}
	w.prepare(w.locks)
	check := func() {}
	if s.begin != nil {
		check = s.begin(p)
	}
	for _, c := range w.clients {
		if _, err := c.zk.Load().Session(ctx); err != nil {
			panic(err)
		}
	}
	time.Sleep(200*time.Millisecond - time.Since(w.began)%(100*time.Millisecond))
	w.net.mu.Lock()
	p.armed, p.healed = true, time.Now()
	w.net.mu.Unlock()
	var players sync.WaitGroup
	for i, do := range s.play {
		c := w.clients[i%s.clients]
		k := &worker{world: w, client: c, number: i + 1, locks: w.locks, rng: rand.New(rand.NewPCG(1, uint64(i)))}
		players.Go(func() {
			time.Sleep(time.Duration(i)*7*time.Millisecond + p.phase(c.line, false))
			k.meet(k.client.zk.Load())
			do(&player{k, p})
		})
	}
	w.finish(&players, p)
	time.Sleep(2*w.timeout + 4*w.tick) // see run
	check()
	w.audit.check()
	time.Sleep(time.Second)
	w.inspect(w.locks)
	for _, c := range w.clients {
		c.zk.Load().Close()
	}
	w.admin.Close()
	time.Sleep(5 * time.Second)
	if sessions, connections, _ := w.servers.counts(); sessions != 0 || connections != 0 {
		w.found("leak", "", "%d sessions and %d connections at the server after all clients were closed", sessions, connections)
	}
	w.servers.close()
	w.virtual = time.Since(w.began)
}

// finish waits for the players. When everything is whole again, each must get its turn soon.
func (w *world) finish(players *sync.WaitGroup, p *plan) {
	done := make(chan struct{})
	go func() {
		players.Wait()
		close(done)
	}()
	healed := func() time.Time {
		w.net.mu.Lock()
		defer w.net.mu.Unlock()
		return p.healed
	}
	wait := func(d time.Duration) bool {
		select {
		case <-done:
			return true
		case <-time.After(d):
			return false
		}
	}
	for !wait(time.Until(healed().Add(quiet))) {
		if time.Now().Before(healed().Add(quiet)) { // the schedule has gone on
			continue
		}
		nodes, err := w.ephemerals(context.Background(), locksRoot)
		w.found("lost wakeup", "", "somebody still waits: the queues are %q, %v; %s", nodes, err, w.servers.waiting())
		p.cancelAll()
		wait(10 * w.timeout) // the bubble panics if that does not end them
		break
	}
	w.net.mu.Lock()
	p.armed = false
	w.net.mu.Unlock()
	time.Sleep(time.Until(healed()))
}

func (p *plan) cancelAll() {
	p.w.net.mu.Lock()
	defer p.w.net.mu.Unlock()
	for _, calls := range p.calls {
		for _, k := range calls {
			time.AfterFunc(1, func() { k.cancel(errEnough) })
		}
	}
}

func (p *player) lock(l locker) *chaos.Claim  { return p.acquire(l, false, l.lock) }
func (p *player) tries(l locker) *chaos.Claim { return p.acquire(l, true, l.try) }

func (p *player) acquire(l locker, try bool, lock func(context.Context) (*holdfast.Hold, error)) *chaos.Claim {
	ctx, done := p.plan.call(p.client)
	defer done()
	claim, err := p.log.Acquire(ctx, chaos.Attempt{Client: p.number, Try: try, Locks: l.parts, Session: p.client.session.Load}, lock)
	if err != nil {
		p.tell("client %d, player %d: %v", p.client.number, p.number, err)
		p.refused(ctx, l, try, err)
		return nil
	}
	p.tell("client %d, player %d: has token %d", p.client.number, p.number, claim.Token())
	return claim
}

// aWhile is how long players keep locks.
const aWhile = 50 * time.Millisecond

// use keeps what was acquired for a moment, and releases it.
func (p *player) use(claim *chaos.Claim) {
	if claim != nil {
		p.sleep(claim.Context(), aWhile)
	}
	p.free(claim)
}

func (p *player) free(claim *chaos.Claim) {
	if claim == nil {
		return
	}
	p.tell("client %d, player %d: releases", p.client.number, p.number)
	if err := claim.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, zk.ErrClosed) {
		p.found("error", claim.Path(), "unlock: %v", err)
	}
}
