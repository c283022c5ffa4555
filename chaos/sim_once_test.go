package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/zk"
)

// TestSimulationOfOnce runs worlds in which workers call a Once beside the other workers: keys that run at
// least once, with and without ForgetAfter, keys that run at most once, and periods.
func TestSimulationOfOnce(t *testing.T) {
	simulateOthers(t, options{Once: true}, fewSeeds/2, func(s *summary, n int) {
		s.mustHave(t, n, "runs", "answers", "failures", "begun", "forgotten", "lost", "recorded though the caller gave up")
	})
}

const (
	oncesRoot   = "/onces"
	onceForgets = 3 * time.Second
	oncePeriod  = 2 * time.Second
)

// A onceWay is one way to use a Once. Each has a path of its own.
type onceWay struct {
	path   string
	opts   []once.Option
	atMost bool
	period bool
	forget bool
}

var onceWays = []onceWay{
	{path: oncesRoot + "/least"},
	{path: oncesRoot + "/forgetful", opts: []once.Option{once.ForgetAfter(onceForgets)}, forget: true},
	{path: oncesRoot + "/most", opts: []once.Option{once.AtMostOnce()}, atMost: true},
	{path: oncesRoot + "/period", period: true},
	{path: oncesRoot + "/period-most", opts: []once.Option{once.AtMostOnce()}, atMost: true, period: true},
}

// onces are the workers that call Once, and what is known of their keys.
type onces struct {
	*world

	mu      sync.Mutex // guards the fields below
	keys    map[string]*onceKey
	figures map[string]int
	ran     int
	seen    map[string]int // events of the keys' locks, see observer
}

// A onceKey is a key of one way, or its periods.
type onceKey struct {
	way      onceWay
	key      string
	going    []run           // calls of the function that have not returned
	started  int             // calls of the function
	values   map[string]bool // that calls have returned without an error
	answer   *once.Result    // that was acknowledged
	at       time.Time       // when it was
	periods  []once.Result   // that were acknowledged to their runners
	answered int
}

// startOnces starts the workers. The returned function checks the keys when everything is whole again.
func (w *world) startOnces(ctx context.Context, workers *sync.WaitGroup) (check func()) {
	w.create(context.Background(), oncesRoot)
	o := &onces{world: w, keys: make(map[string]*onceKey), figures: make(map[string]int), seen: make(map[string]int)}
	for i, c := range w.clients {
		for j := range 2 {
			rng := rand.New(rand.NewPCG(w.seed, uint64(5000+10*i+j)))
			workers.Go(func() { o.work(ctx, c, rng) })
		}
	}
	return o.check
}

func (o *onces) work(ctx context.Context, c *client, rng *rand.Rand) {
	for ctx.Err() == nil && !o.draining.Load() {
		(&worker{}).sleep(ctx, time.Duration(rng.ExpFloat64()*float64(300*time.Millisecond)))
		k := o.choose(rng)
		waiting, cancel := context.WithCancel(ctx)
		patience := time.Hour
		if rng.IntN(4) == 0 { // the caller gives up, at any moment
			patience = time.Duration(rng.ExpFloat64() * float64(o.timeout) / 4)
		}
		timer := time.AfterFunc(patience, func() {
			if !o.draining.Load() {
				cancel()
			}
		})
		o.call(waiting, c, rng, k)
		timer.Stop()
		cancel()
	}
}

// choose returns a key: mostly a recent one, so that several workers want it.
func (o *onces) choose(rng *rand.Rand) *onceKey {
	w := onceWays[rng.IntN(len(onceWays))]
	key := ""
	if !w.period {
		n := int(time.Since(o.began) / time.Second)
		key = fmt.Sprintf("fire %d", max(0, n-int(rng.ExpFloat64()*2)))
	}
	return o.key(w, key)
}

func (o *onces) key(w onceWay, key string) *onceKey {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := w.path + "?" + key
	if o.keys[id] == nil {
		o.keys[id] = &onceKey{way: w, key: key, values: make(map[string]bool)}
	}
	return o.keys[id]
}

var errOnceFails = errors.New("the function fails")

// call calls Do or Within, and checks what it returns.
func (o *onces) call(ctx context.Context, c *client, rng *rand.Rand, k *onceKey) {
	lasts := time.Duration(rng.ExpFloat64() * float64(200*time.Millisecond))
	if rng.IntN(10) == 0 {
		lasts = o.timeout / 2 * time.Duration(1+rng.IntN(3))
	}
	fails, obeys := rng.IntN(5) == 0, rng.IntN(2) == 0
	called := 0
	f := func(held context.Context) ([]byte, error) {
		called++
		value, returned := o.enter(c, k, held)
		(&worker{}).sleep(held, lasts)
		var err error
		switch {
		case fails:
			err = errOnceFails
		case held.Err() != nil && obeys:
			err = context.Cause(held)
		}
		returned(err)
		return value, err
	}
	of := once.New(c.zk.Load(), k.way.path, append([]once.Option{once.WithLock(holdfast.WithOwner(fmt.Sprint(c.number)), holdfast.WithObserver(o.observer()))}, k.way.opts...)...)
	began := time.Now()
	var r once.Result
	var err error
	if k.way.period {
		r, err = of.Every(oncePeriod).Do(ctx, f)
	} else {
		r, err = of.Key(k.key).Do(ctx, f)
	}
	where := k.way.path + "?" + k.key
	o.tell("client %d: once %s: %+v, %v", c.number, where, r, err)
	if called > 1 || r.Ran != (called == 1) {
		o.found("once", where, "the function was called %d times by one call, which returns %+v, %v", called, r, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.acknowledged(k, r, where, began)
		if ctx.Err() != nil && r.Ran {
			o.figures["recorded though the caller gave up"]++
		}
	case errors.Is(err, errOnceFails) && r.Ran && fails:
		o.figures["failures"]++
	case errors.Is(err, holdfast.ErrLost) && r.Ran:
		o.figures["lost"]++
	case errors.Is(err, holdfast.ErrUncertain) && (r.Ran || k.way.atMost && ctx.Err() != nil):
		o.figures["uncertain"]++
	case errors.Is(err, once.ErrBegun) && !r.Ran && (k.way.atMost && (k.answer == nil || k.way.period)):
		o.figures["begun"]++
		if r.Token == 0 || r.Owner == "" || r.Began.IsZero() {
			o.found("once", where, "%+v, %v", r, err)
		}
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
	case errors.Is(err, zk.ErrClosed): // the client was killed
	default:
		o.found("error", where, "once: %+v, %v (context: %v)", r, err, context.Cause(ctx))
	}
}

// enter is the beginning of a call of the function. returned is its end.
func (o *onces) enter(c *client, k *onceKey, held context.Context) (value []byte, returned func(error)) {
	now := run{held, c.session.Load()}
	where := k.way.path + "?" + k.key
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ran++
	value = fmt.Appendf(nil, "run %d", o.ran)
	o.figures["runs"]++
	o.tell("client %d: once %s: %s", c.number, where, value)
	for _, other := range k.going {
		if other.held.Err() == nil && held.Err() == nil && !o.endedByForce(other.session) && !o.endedByForce(now.session) {
			o.found("once", where, "%s is beside another run", value)
		}
	}
	k.going = append(k.going, now)
	k.started++
	switch {
	case k.way.period:
	case k.way.atMost && k.started > 1:
		o.found("once", where, "%s is number %d of a key that runs at most once", value, k.started)
	case k.answer != nil && k.way.forget && time.Since(k.answer.At) > onceForgets:
		o.figures["forgotten"]++
		k.answer = nil
	case k.answer != nil:
		o.found("once", where, "%s begins, though %+v was acknowledged", value, *k.answer)
	}
	return value, func(err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		k.going = slices.DeleteFunc(k.going, func(r run) bool { return r == now })
		if err == nil {
			k.values[string(value)] = true
		}
	}
}

// acknowledged checks a result. o.mu must be held.
func (o *onces) acknowledged(k *onceKey, r once.Result, where string, began time.Time) {
	k.answered++
	if !r.Ran {
		o.figures["answers"]++
	}
	if !k.values[string(r.Value)] || r.Token == 0 || r.At.IsZero() && !r.Ran || r.Began.IsZero() || !r.At.IsZero() && r.At.Before(r.Began) {
		o.found("once", where, "%+v is the result of no run", r)
	}
	if k.way.period {
		if r.Ran {
			k.periods = append(k.periods, r)
		} else if d := r.Began.Sub(began); d <= -oncePeriod-2*time.Hour {
			o.found("once", where, "%+v is old", r)
		}
		return
	}
	if was := k.answer; was != nil && (was.Token != r.Token || string(was.Value) != string(r.Value) || was.Owner != r.Owner || !was.At.IsZero() && !r.At.IsZero() && !was.At.Equal(r.At)) {
		// A call that began before can have read the earlier result, which was forgotten since.
		if !k.way.forget || r.Token < was.Token && time.Since(was.At) < onceForgets && began.After(k.at) {
			o.found("once", where, "%+v was acknowledged after %+v", r, *was)
		}
	}
	if k.answer == nil || k.answer.Token < r.Token || k.answer.At.IsZero() {
		k.answer, k.at = &r, time.Now()
	}
}

// check asks for every key, when everything is whole again. Then a key that runs at least once is done, and
// has the result that was acknowledged.
func (o *onces) check() {
	// A request can take seconds in a world with slow links, and each key takes some.
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+len(o.keys))*10*time.Minute)
	defer cancel()
	c := o.clients[0]
	rng := rand.New(rand.NewPCG(o.seed, 4999))
	var all []string
	for id := range o.keys {
		all = append(all, id)
	}
	slices.Sort(all)
	for _, id := range all {
		k := o.keys[id]
		for !k.way.atMost && !k.way.period && ctx.Err() == nil {
			before := k.answered
			o.call(ctx, c, rng, k)
			if k.answered > before {
				break
			}
		}
		if k.way.atMost && !k.way.period {
			o.call(ctx, c, rng, k)
		}
		o.checkRecord(ctx, c, k, id)
		if !k.way.period && !k.way.forget {
			o.forget(ctx, c, k, id)
		}
		slices.SortFunc(k.periods, func(a, b once.Result) int { return a.Began.Compare(b.Began) })
		for i, r := range k.periods {
			if i > 0 && r.Began.Sub(k.periods[i-1].Began) < oncePeriod {
				o.found("once", id, "%+v is within a period of %+v", r, k.periods[i-1])
			}
		}
	}
	if ctx.Err() != nil {
		o.found("once", oncesRoot, "keys cannot be done though nobody is in their way")
	}
	if left, err := o.ephemerals(context.Background(), oncesRoot); err != nil || len(left) > 0 {
		o.found("orphan", oncesRoot, "%q, %v", left, err)
	}
	if s := o.seen; s["queued"] != s["acquired"] || s["held"] != s["released"] || s["lost"] > s["held"] {
		o.found("observer", oncesRoot, "events that do not fit together: %v", s)
	}
	o.onces = o.figures
}

// checkRecord reads the record of a key, or of the periods. It is the last result that was acknowledged, or a later
// one whose caller was not told.
func (o *onces) checkRecord(ctx context.Context, c *client, k *onceKey, where string) {
	of := once.New(c.zk.Load(), k.way.path, k.way.opts...)
	var last int64
	if k.answer != nil {
		last = k.answer.Token
	}
	for _, r := range k.periods {
		last = max(last, r.Token)
	}
	var r *once.Result
	var err error
	if k.way.period {
		r, err = of.Every(time.Hour).Recorded(ctx)
	} else {
		r, err = of.Key(k.key).Recorded(ctx)
	}
	switch {
	case errors.Is(err, once.ErrBegun) && k.way.atMost:
	case err != nil:
		o.found("once", where, "the record: %v", err)
	case r == nil && last != 0 && !k.way.forget, r != nil && r.Token < last:
		o.found("once", where, "the record is %+v, and the run with the token %d was acknowledged", r, last)
	}
	if k.way.period {
		if err = of.Every(time.Hour).Forget(ctx); err == nil {
			r, err = of.Every(time.Hour).Recorded(ctx)
		}
		if r != nil || err != nil {
			o.found("once", where, "the record of a period that was forgotten is %+v, %v", r, err)
		}
	}
}

// forget forgets a key, and then it runs.
func (o *onces) forget(ctx context.Context, c *client, k *onceKey, where string) {
	of := once.New(c.zk.Load(), k.way.path, k.way.opts...)
	if err := of.Key(k.key).Forget(ctx); err != nil {
		o.found("once", where, "forget: %v", err)
	}
	r, err := of.Key(k.key).Do(ctx, func(context.Context) ([]byte, error) { return []byte("again"), nil })
	if err != nil || !r.Ran || string(r.Value) != "again" {
		o.found("once", where, "%+v, %v after it was forgotten", r, err)
	}
}

// observer counts events.
func (o *onces) observer() *holdfast.Observer {
	count := func(what string) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.seen[what]++
	}
	return &holdfast.Observer{
		Queued: func(ctx context.Context, _ holdfast.Event) context.Context {
			count("queued")
			return ctx
		},
		Acquired: func(_ context.Context, e holdfast.Event) {
			if count("acquired"); e.Hold != nil {
				count("held")
			}
		},
		Lost:     func(context.Context, holdfast.Event) { count("lost") },
		Released: func(context.Context, holdfast.Event) { count("released") },
	}
}
