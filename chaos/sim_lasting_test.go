package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/once"
	"holdfast/reserve"
	"holdfast/zk"
)

// The kinds of worlds with what outlasts the holders of locks.
const (
	reservations = "reservations"
	detachedOnes = "detached"
	turnsOfAll   = "turns"
)

// TestSimulationOfReservations runs worlds in which workers reserve a lock beside the other workers. In half of
// them, the servers' clock goes back.
func TestSimulationOfReservations(t *testing.T) {
	simulateLasting(t, reservations, "claims", "reserved", "refused", "gave up", "clock set back")
}

// TestSimulationOfDetached runs worlds in which detached locks and mutexes have one path.
func TestSimulationOfDetached(t *testing.T) {
	simulateLasting(t, detachedOnes, "claims", "detached", "unlocked", "gave up", "expired")
}

// TestSimulationOfTurns runs worlds in which the holders of a lock take turns, of keys and of periods.
func TestSimulationOfTurns(t *testing.T) {
	simulateLasting(t, turnsOfAll, "claims", "runs", "done", "answers", "lost")
}

func simulateLasting(t *testing.T, kind string, must ...string) {
	simulateOthers(t, options{Lasting: kind}, fewSeeds/4, func(s *summary, n int) { s.mustHave(t, n, must...) })
}

const (
	lastingRoot  = "/lasting"
	lastingPath  = lastingRoot + "/a"
	lastingTurns = lastingPath + "/.holdfast"
	turnPeriod   = 2 * time.Second
)

// lasting are the workers of such a world.
type lasting struct {
	*world
	kind string

	mu      sync.Mutex // guards figures
	figures map[string]int
}

func (w *world) startLasting(ctx context.Context, workers *sync.WaitGroup, kind string) (check func()) {
	w.create(context.Background(), lastingRoot)
	g := &lasting{world: w, kind: kind, figures: make(map[string]int)}
	work := map[string]func(context.Context, *client, *rand.Rand){reservations: g.reserve, detachedOnes: g.detached, turnsOfAll: g.turn}[kind]
	for i, c := range w.clients {
		for j := range 2 {
			rng := rand.New(rand.NewPCG(w.seed, uint64(6000+10*i+j)))
			workers.Go(func() { g.work(ctx, c, rng, work) })
		}
	}
	if rng := rand.New(rand.NewPCG(w.seed, 7000)); kind == reservations && rng.IntN(2) == 0 {
		workers.Go(func() { g.moveClock(ctx, rng) })
	}
	return g.check
}

// moveClock sets the servers' clock back, again and again, by a moment or an hour.
func (g *lasting) moveClock(ctx context.Context, rng *rand.Rand) {
	for !g.draining.Load() {
		(&worker{}).sleep(ctx, time.Duration(rng.ExpFloat64()*float64(3*time.Second)))
		by := time.Duration(rng.ExpFloat64() * float64(2*time.Second))
		if rng.IntN(3) == 0 {
			by = time.Hour
		}
		g.tell("the clock goes back by %v", by)
		g.servers.moveClock(-by)
		g.did("clock set back")
	}
}

func (g *lasting) did(what string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.figures[what]++
}

func (g *lasting) work(ctx context.Context, c *client, rng *rand.Rand, once func(context.Context, *client, *rand.Rand)) {
	for ctx.Err() == nil && !g.draining.Load() {
		(&worker{}).sleep(ctx, time.Duration(rng.ExpFloat64()*float64(300*time.Millisecond)))
		waiting, cancel := context.WithCancelCause(ctx)
		patience := time.Hour
		if rng.IntN(3) == 0 { // the caller gives up, at any moment
			patience = time.Duration(rng.ExpFloat64() * float64(g.timeout) / 4)
		}
		timer := time.AfterFunc(patience, func() {
			if !g.draining.Load() {
				cancel(errEnough)
			}
		})
		once(waiting, c, rng)
		timer.Stop()
		cancel(nil)
	}
}

var errEnough = errors.New("the caller has given up")

// mutex returns the lock for a client.
func (g *lasting) mutex(c *client) *holdfast.Mutex {
	handoffs, idle := g.local()
	return holdfast.NewMutex(c.zk.Load(), lastingPath, g.options(holdfast.WithLocalHandoff(handoffs), holdfast.WithKeep(idle))...)
}

// local is how often clients hand the lock on, and how long they keep it. Reservations and turns refuse such a lock.
func (g *lasting) local() (handoffs int, idle time.Duration) {
	if g.kind != detachedOnes {
		return 0, 0
	}
	return int(g.seed / 2 % 3), g.idle()
}

// acquire locks l.
func (g *lasting) acquire(ctx context.Context, c *client, l holdfast.Locker, try bool) *chaos.Claim {
	lock := l.Lock
	if try {
		lock = l.TryLock
	}
	handoffs, idle := g.local()
	op := chaos.Op{Lock: lastingPath, Type: chaos.Mutex, Handoff: handoffs, Keep: idle}
	a := chaos.Attempt{Client: c.number, Locks: []chaos.Op{op}, Session: c.session.Load}
	claim, err := g.log.Acquire(ctx, a, lock)
	switch {
	case err == nil:
		g.did("claims")
		return claim
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		g.did("gave up")
	case try && errors.Is(err, holdfast.ErrLocked):
		g.did("refused")
	case errors.Is(err, zk.ErrClosed):
	case try && (errors.Is(err, holdfast.ErrLost) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, zk.ErrConnectionLoss) || strings.HasSuffix(err.Error(), "its node is gone")):
	default:
		g.found("error", lastingPath, "lock: %v (context: %v)", err, context.Cause(ctx))
	}
	return nil
}

// ended checks the error of an operation of a holder, and returns its outcome.
func (g *lasting) ended(ctx context.Context, what string, claim *chaos.Claim, err error) chaos.Outcome {
	switch {
	case err == nil:
		return chaos.OK
	case errors.Is(err, holdfast.ErrLost):
		g.did("lost")
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)), errors.Is(err, zk.ErrClosed), errors.Is(err, holdfast.ErrUncertain):
	default:
		g.found("error", lastingPath, "%s: %v (context: %v; the hold: %v)", what, err, context.Cause(ctx), claim.Err())
	}
	return chaos.Unknown
}

func (g *lasting) unlock(claim *chaos.Claim) {
	if err := claim.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) {
		g.found("error", lastingPath, "unlock: %v", err)
	}
}

// reserve takes the lock, and often reserves it.
func (g *lasting) reserve(ctx context.Context, c *client, rng *rand.Rand) {
	l := reserve.Locker(g.mutex(c))
	claim := g.acquire(ctx, c, l, rng.IntN(3) == 0)
	if claim == nil {
		return
	}
	for _, d := range []time.Duration{time.Duration(rng.Int64N(int64(2 * time.Second))), 0}[:rng.IntN(3)] {
		d = d.Truncate(time.Millisecond)
		o := chaos.Op{Client: c.number, Kind: chaos.Reserve, Lock: lastingPath, Token: claim.Token(), Lasts: d, Call: g.log.Now()}
		var err error
		if d > 0 {
			err = reserve.For(ctx, claim.Hold, d)
		} else {
			err = reserve.Cancel(ctx, claim.Hold)
		}
		o.Outcome, o.Return = g.ended(ctx, "reserve", claim, err), g.log.Now()
		if err == nil && d > 0 {
			g.did("reserved")
		}
		g.log.Add(o)
		lasts := time.Duration(rng.ExpFloat64() * float64(50*time.Millisecond))
		if rng.IntN(8) == 0 {
			lasts = g.timeout
		}
		(&worker{}).sleep(claim.Context(), lasts)
	}
	g.unlock(claim)
}

var idInError = regexp.MustCompile(`with the id ([0-9a-f]+)`)

// detached takes the lock detached, or as a mutex.
func (g *lasting) detached(ctx context.Context, c *client, rng *rand.Rand) {
	if rng.IntN(2) == 0 {
		if claim := g.acquire(ctx, c, g.mutex(c), rng.IntN(3) == 0); claim != nil {
			(&worker{}).sleep(claim.Context(), time.Duration(rng.ExpFloat64()*float64(50*time.Millisecond)))
			g.unlock(claim)
		}
		return
	}
	var expires time.Duration // mostly longer than a round trip, and sometimes shorter than an outage
	if rng.IntN(2) == 0 {
		expires = time.Duration(1+rng.ExpFloat64()*float64(g.timeout/4)) / time.Millisecond * time.Millisecond
	}
	o, got, over := g.detach(ctx, c, expires, rng.IntN(4) == 0)
	if got.ID == "" {
		return
	}
	lasts := time.Duration(rng.ExpFloat64() * float64(50*time.Millisecond))
	if !got.Expires.IsZero() && rng.IntN(2) == 0 { // others remove it
		lasts = time.Until(over) + 50*time.Millisecond
		g.did("expired")
	}
	(&worker{}).sleep(ctx, lasts)
	g.release(c, o, got.ID, over)
}

// detach takes the lock, detached. got.ID is "" if it was not acquired, and cannot be. It expires at over.
func (g *lasting) detach(ctx context.Context, c *client, expires time.Duration, try bool) (o chaos.Op, got holdfast.Claim, over time.Time) {
	o = chaos.Op{Client: c.number, Kind: chaos.Acquire, Lock: lastingPath, Type: chaos.Mutex, Call: g.log.Now(), Outcome: chaos.Unknown}
	g.mu.Lock()
	g.figures["detached"]++
	o.Claim = 1_000_000 + g.figures["detached"] // apart from those of the log
	g.mu.Unlock()
	d := holdfast.NewDetached(c.zk.Load(), lastingPath, expires)
	acquire := d.Lock
	if try {
		acquire = d.TryLock
	}
	got, err := acquire(ctx)
	g.tell("client %d: detached for %v: %+v, %v", c.number, expires, got, err)
	o.Return = g.log.Now()
	switch {
	case err == nil:
		o.Outcome, o.Token, o.Node = chaos.OK, got.Token, got.Path
		if left := time.Until(got.Expires); expires > 0 && left <= max(expires/2-2*time.Millisecond, 0) { // times have milliseconds
			g.found("detached", lastingPath, "%v are left of a lock that lasts %v", left, expires)
		}
	case errors.Is(err, holdfast.ErrUncertain):
		m := idInError.FindStringSubmatch(err.Error())
		if m == nil {
			g.found("detached", lastingPath, "an uncertain lock without an id: %v", err)
			return o, holdfast.Claim{}, over
		}
		got.ID = m[1]
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		g.did("gave up")
	case errors.Is(err, zk.ErrClosed):
	case expires > 0 && errors.Is(err, zk.ErrBadArguments):
		g.did("too short")
	case errors.Is(err, holdfast.ErrLocked):
		g.did("refused")
	case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrConnectionLoss): // of TryLock
	default:
		g.found("error", lastingPath, "detached: %v (context: %v)", err, context.Cause(ctx))
	}
	g.log.Add(o)
	if got.ID == "" {
		return o, holdfast.Claim{}, over
	}
	over = time.Now().Add(time.Hour)
	if !got.Expires.IsZero() {
		over = got.Expires
		end := o // it may be removed from now on
		end.Kind, end.Call, end.Return, end.Outcome = chaos.Release, over.Sub(g.began), chaos.Never, chaos.Unknown
		g.log.Add(end)
	}
	return o, got, over
}

// release unlocks a detached lock until that is acknowledged. If it is not known whether the lock is held, its last
// transaction may still arrive, until its session is over.
// It expires at over.
func (g *lasting) release(c *client, o chaos.Op, id string, over time.Time) {
	sure := o.Outcome == chaos.OK
	o.Kind, o.Call = chaos.Release, g.log.Now()
	for doubt, until := false, time.Now().Add(3*g.timeout); ; {
		// Long enough for the slowest connection: it takes several round trips.
		ctx, cancel := context.WithTimeout(context.Background(), 10*g.timeout)
		err := holdfast.NewDetached(c.zk.Load(), lastingPath, 0).Unlock(ctx, id)
		cancel()
		g.tell("client %d: unlock %s: %v", c.number, id, err)
		switch {
		case err == nil, errors.Is(err, holdfast.ErrNotHeld) && doubt:
			if g.did("unlocked"); sure {
				o.Outcome, o.Return = chaos.OK, g.log.Now()
				g.log.Add(o)
			}
			return
		case errors.Is(err, holdfast.ErrNotHeld) && !time.Now().Before(over):
			return
		case errors.Is(err, holdfast.ErrNotHeld) && sure:
			g.found("detached", lastingPath, "its owner is told that nobody has it: %v", err)
			return
		case errors.Is(err, holdfast.ErrNotHeld) && time.Now().After(until):
			return
		case errors.Is(err, holdfast.ErrNotHeld):
			time.Sleep(g.timeout / 4)
		default:
			doubt = doubt || sure // it may have been executed
			time.Sleep(g.timeout / 8)
		}
	}
}

// turn takes the lock, and a turn.
func (g *lasting) turn(ctx context.Context, c *client, rng *rand.Rand) {
	claim := g.acquire(ctx, c, g.mutex(c), false)
	if claim == nil {
		return
	}
	defer g.unlock(claim)
	of := once.New(c.zk.Load(), lastingTurns, once.WithLock(holdfast.WithOwner(fmt.Sprint(c.number))))
	o := chaos.Op{Client: c.number, Kind: chaos.Turn, Lock: lastingTurns, Lasts: turnPeriod, Call: g.log.Now(), Outcome: chaos.OK}
	since := func(t time.Time) time.Duration { return t.Sub(g.began) }
	stat, there, err := c.zk.Load().Exists(ctx, claim.Path())
	if err != nil || !there {
		return
	}
	o.Queued = since(time.UnixMilli(stat.Ctime))
	var turn *once.Turn
	var r once.Result
	if rng.IntN(2) == 0 {
		key := fmt.Sprintf("fire %d", int(time.Since(g.began)/time.Second))
		o.Lock, o.Lasts = lastingTurns+"?"+key, chaos.Never
		turn, r, err = of.Key(key).Turn(ctx, claim.Hold)
	} else {
		turn, r, err = of.Every(turnPeriod).Turn(ctx, claim.Hold)
	}
	o.Return = g.log.Now()
	switch {
	case err != nil:
		if !errors.Is(err, zk.ErrSessionExpired) {
			g.ended(ctx, "turn", claim, err)
		}
		return
	case turn == nil:
		g.did("answers")
		o.Outcome, o.Token, o.Began = chaos.Failed, r.Token, since(r.Began)
		g.log.Add(o)
		return
	}
	o.Token, o.Began = claim.Token(), o.Queued
	g.log.Add(o)
	g.did("runs")
	lasts := time.Duration(rng.ExpFloat64() * float64(100*time.Millisecond))
	if rng.IntN(8) == 0 {
		lasts = g.timeout
	}
	(&worker{}).sleep(claim.Context(), lasts)
	if rng.IntN(5) == 0 { // the run fails
		return
	}
	o.Kind, o.Call = chaos.Done, g.log.Now()
	r, err = turn.Done(ctx, []byte("x"))
	o.Outcome, o.Return = g.ended(ctx, "done", claim, err), g.log.Now()
	if err == nil {
		g.did("done")
		if r.Token != o.Token || since(r.Began) != o.Began {
			g.found("turn", o.Lock, "%+v is acknowledged for %v", r, o)
		}
	}
	g.log.Add(o)
}

// check looks for what is left when everything is whole again.
func (g *lasting) check() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	entries, err := holdfast.List(ctx, g.admin, lastingPath)
	if err != nil {
		g.found("error", lastingPath, "list: %v", err)
	}
	var held []int64
	for _, e := range entries {
		if e.Kept { // by a client that is there
			continue
		}
		if e.Detached {
			held = append(held, e.Token)
		}
		g.found("orphan", lastingPath, "%+v", e)
	}
	for _, v := range chaos.Leftovers(g.log.Ops(), held) {
		g.found(v.Oracle, v.Lock, "%s", v.Text)
	}
	g.onces = g.figures
}
