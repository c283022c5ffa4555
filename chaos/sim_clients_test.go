package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"holdfast"
	"holdfast/chaos"
	"holdfast/zk"
)

const locksRoot, countersRoot = "/locks", "/counters"

// A lockSpec is one lock of a world, or several that are taken together.
type lockSpec struct {
	paths   []string // of the locks
	dirs    []string // where nodes stand that somebody may delete
	counted string   // the counter that holders who exclude all others add to, "" if there is none
	of      func(c *zk.Client) []locker
}

// A locker is one way to take a lock.
type locker struct {
	parts     []chaos.Op
	lock, try func(ctx context.Context) (*holdfast.Hold, error)
	// Taken again by those who hold it: inner is with the claim as the context's origin.
	inner     func(ctx context.Context) (*holdfast.Hold, error)
	innerOp   chaos.Op
	counted   string
	election  *holdfast.Election
	exclusive bool
}

// chooseLocks takes one sort of lock, or two.
func (w *world) chooseLocks() []lockSpec {
	kinds := []func(*world, string) lockSpec{mutexes, readWrites, semaphores, multis, nodes, elections}
	w.rng.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	var specs []lockSpec
	for i, kind := range kinds[:1+w.rng.IntN(2)] {
		specs = append(specs, kind(w, fmt.Sprintf("%s/%c", locksRoot, 'a'+i)))
	}
	return specs
}

func mutexes(w *world, path string) lockSpec {
	layouts := []holdfast.Layout{
		holdfast.LayoutCurator, holdfast.LayoutCurator, holdfast.LayoutKazoo, holdfast.LayoutWriteLock, holdfast.LayoutSessionID,
	}
	layout := layouts[w.rng.IntN(len(layouts))]
	counted := countersRoot + path[len(locksRoot):]
	if !strings.Contains(layout.Mutex, "{uuid}") && !strings.Contains(layout.Mutex, "{hex}") {
		counted = "" // the admin deletes nodes whose names come back then, and Commit compares those
	}
	handoffs := w.rng.IntN(3) // 0: nobody hands on
	return lockSpec{paths: []string{path}, dirs: []string{path}, counted: counted, of: func(c *zk.Client) []locker {
		var ls []locker
		for _, n := range []int{0, handoffs, handoffs} { // in one queue, those who do and those who do not
			m := holdfast.NewMutex(c, path, holdfast.WithLayout(layout), holdfast.Reentrant(), holdfast.WithLocalHandoff(n))
			op := chaos.Op{Lock: path, Type: chaos.Mutex, Handoff: n}
			ls = append(ls, locker{parts: []chaos.Op{op}, lock: m.Lock, try: m.TryLock, inner: m.Lock, innerOp: op, counted: counted, exclusive: true})
		}
		return ls
	}}
}

func readWrites(w *world, path string) lockSpec {
	counted := countersRoot + path[len(locksRoot):]
	handoffs := w.rng.IntN(3)
	return lockSpec{paths: []string{path}, dirs: []string{path}, counted: counted, of: func(c *zk.Client) []locker {
		m := holdfast.NewRWMutex(c, path, holdfast.WithLocalHandoff(handoffs))
		read := chaos.Op{Lock: path, Type: chaos.ReadWrite, Shared: true}
		write := chaos.Op{Lock: path, Type: chaos.ReadWrite, Handoff: handoffs}
		return []locker{
			{parts: []chaos.Op{write}, lock: m.Lock, try: m.TryLock, inner: m.RLock, innerOp: read, counted: counted, exclusive: true},
			{parts: []chaos.Op{read}, lock: m.RLock, try: m.TryRLock},
			{parts: []chaos.Op{read}, lock: m.RLock, try: m.TryRLock},
		}
	}}
}

func semaphores(w *world, path string) lockSpec {
	limit := 2 + w.rng.IntN(2)
	return lockSpec{paths: []string{path}, dirs: []string{path + "/locks", path + "/leases"}, of: func(c *zk.Client) []locker {
		var ls []locker
		s := holdfast.NewSemaphore(c, path, limit)
		for n := 1; n <= 2; n++ {
			ls = append(ls, locker{
				parts: []chaos.Op{{Lock: path, Type: chaos.Semaphore, Limit: limit, Permits: n}},
				lock:  func(ctx context.Context) (*holdfast.Hold, error) { return s.AcquireN(ctx, n) },
				try:   func(ctx context.Context) (*holdfast.Hold, error) { return s.TryAcquireN(ctx, n) },
			})
		}
		return ls
	}}
}

// multis are two locks that some take together, and some alone.
func multis(_ *world, path string) lockSpec {
	one, two := path+"-1", path+"-2"
	counted := countersRoot + path[len(locksRoot):]
	return lockSpec{paths: []string{one, two}, dirs: []string{one, two}, counted: counted, of: func(c *zk.Client) []locker {
		a, b := holdfast.NewMutex(c, one), holdfast.NewMutex(c, two)
		both := holdfast.NewMultiLock(b, a)
		opA, opB := chaos.Op{Lock: one, Type: chaos.Mutex}, chaos.Op{Lock: two, Type: chaos.Mutex}
		return []locker{
			{parts: []chaos.Op{opA, opB}, lock: both.Lock, try: both.TryLock, counted: counted, exclusive: true},
			{parts: []chaos.Op{opA}, lock: a.Lock, try: a.TryLock, exclusive: true},
			{parts: []chaos.Op{opB}, lock: b.Lock, try: b.TryLock, exclusive: true},
		}
	}}
}

const nodeLock = "/node" // ends the path of a NodeLock

func nodes(_ *world, path string) lockSpec {
	lock := path + nodeLock
	return lockSpec{paths: []string{lock}, dirs: []string{path}, of: func(c *zk.Client) []locker {
		n := holdfast.NewNodeLock(c, lock)
		return []locker{{parts: []chaos.Op{{Lock: lock, Type: chaos.Mutex}}, lock: n.Lock, try: n.TryLock, exclusive: true}}
	}}
}

func elections(_ *world, path string) lockSpec {
	counted := countersRoot + path[len(locksRoot):]
	return lockSpec{paths: []string{path}, dirs: []string{path}, counted: counted, of: func(c *zk.Client) []locker {
		e := holdfast.NewElection(c, path)
		campaign := func(ctx context.Context) (*holdfast.Hold, error) { return e.Campaign(ctx, []byte("me")) }
		return []locker{{parts: []chaos.Op{{Lock: path, Type: chaos.Election}}, lock: campaign, election: e, counted: counted, exclusive: true}}
	}}
}

// prepare makes the counters.
func (w *world) prepare(locks []lockSpec) {
	ctx := context.Background()
	w.create(ctx, countersRoot)
	w.create(ctx, locksRoot)
	for _, l := range locks {
		if l.counted != "" {
			w.create(ctx, l.counted)
			w.counters[l.counted] = &counter{}
		}
	}
}

func (w *world) create(ctx context.Context, path string) {
	for {
		if _, _, err := w.admin.Create(ctx, path, []byte("0"), zk.Persistent); err == nil || errors.Is(err, zk.ErrNodeExists) {
			return
		}
	}
}

// A worker takes locks and lets them go.
type worker struct {
	*world
	client  *client
	number  int
	rng     *rand.Rand
	locks   []lockSpec
	of      *zk.Client // whose lockers they are
	lockers []locker
}

func (k *worker) work(ctx context.Context) {
	for ctx.Err() == nil && !k.draining.Load() {
		k.sleep(ctx, time.Duration(k.rng.ExpFloat64()*float64(k.client.pause)))
		k.meet(k.client.zk.Load())
		l := k.lockers[k.rng.IntN(len(k.lockers))]
		switch {
		case ctx.Err() != nil:
			return
		case l.election != nil && k.rng.IntN(3) == 0:
			k.observe(ctx, l)
		default:
			k.turn(ctx, l)
		}
	}
}

// meet makes the lockers of another client.
func (k *worker) meet(c *zk.Client) {
	if k.of == c {
		return
	}
	k.of, k.lockers = c, nil
	for _, l := range k.locks {
		k.lockers = append(k.lockers, l.of(c)...)
	}
}

func (k *worker) sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// turn is one attempt, and what follows if it succeeds.
func (k *worker) turn(ctx context.Context, l locker) {
	patience := 3 * k.timeout
	if k.rng.IntN(3) == 0 { // who changes its mind, at any moment
		patience = time.Duration(k.rng.ExpFloat64() * float64(k.timeout) / 8)
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(patience, func() {
		if !k.draining.Load() { // who is still in line then must have its turn
			cancel(context.DeadlineExceeded)
		}
	}).Stop()
	lock, a := l.lock, chaos.Attempt{Client: k.number, Locks: l.parts, Session: k.client.session.Load}
	if l.try != nil && k.rng.IntN(4) == 0 {
		lock, a.Try = l.try, true
	}
	claim, err := k.log.Acquire(waiting, a, lock)
	if err != nil {
		k.refused(waiting, l, a.Try, err)
		return
	}
	k.hold(ctx, l, claim)
}

// refused looks at an error: there are few that a worker may see.
func (k *worker) refused(ctx context.Context, l locker, try bool, err error) {
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
	case errors.Is(err, holdfast.ErrLocked):
	case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrConnectionLoss): // of one who tries
	case errors.Is(err, zk.ErrClosed): // the client was killed
	case try && strings.HasSuffix(err.Error(), "its node is gone"): // who waits queues again
	default:
		k.found("error", l.parts[0].Lock, "%v (context: %v)", err, context.Cause(ctx))
	}
}

// hold does something under the lock.
func (k *worker) hold(ctx context.Context, l locker, claim *chaos.Claim) {
	until := time.Duration(k.rng.ExpFloat64() * float64(400*time.Millisecond))
	if k.skew != 0 {
		until = 3 * k.timeout // what the clocks do is seen by who holds for long
	} else if k.rng.IntN(8) == 0 {
		until = k.timeout / 2 * time.Duration(1+k.rng.IntN(3)) // the session has to be kept for that
	}
	end := time.Now().Add(until)
	if l.counted != "" && k.rng.IntN(2) == 0 {
		k.count(ctx, l, claim)
	}
	var inner *chaos.Claim
	if l.inner != nil && k.rng.IntN(4) == 0 {
		inner = k.again(l, claim)
	}
	if l.election != nil && k.rng.IntN(2) == 0 {
		l.election.Proclaim(ctx, claim.Hold, []byte("me, still"))
	}
	k.sleep(claim.Context(), time.Until(end))
	if k.rng.IntN(2) == 0 && inner != nil { // either may be the first to go
		k.unlock(claim)
		k.sleep(inner.Context(), 100*time.Millisecond)
		k.unlock(inner)
		return
	}
	if inner != nil {
		k.unlock(inner)
	}
	k.unlock(claim)
}

func (k *worker) unlock(c *chaos.Claim) {
	if err := c.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) {
		k.found("error", c.Path(), "unlock: %v", err)
	}
}

// again takes a lock that is held: a re-entrant one, or the read side.
func (k *worker) again(l locker, claim *chaos.Claim) *chaos.Claim {
	waiting, cancel := context.WithTimeout(claim.Context(), k.timeout)
	defer cancel()
	op := l.innerOp
	op.Inside = claim.ID()
	inner, err := k.log.Acquire(waiting, chaos.Attempt{Client: k.number, Locks: []chaos.Op{op}, Session: k.client.session.Load}, l.inner)
	if err != nil {
		return nil
	}
	return inner
}

// count adds one to the lock's counter, slowly, by Commit: what another has added meanwhile
// would be lost.
func (k *worker) count(ctx context.Context, l locker, claim *chaos.Claim) {
	data, _, err := k.of.Get(claim.Context(), l.counted)
	if err != nil {
		return
	}
	var value int
	if _, err := fmt.Sscan(string(data), &value); err != nil {
		k.found("error", l.counted, "the counter is %q", data)
		return
	}
	k.sleep(ctx, time.Duration(k.rng.ExpFloat64()*float64(100*time.Millisecond)))
	_, err = claim.Commit(context.WithoutCancel(ctx), zk.SetOp(l.counted, fmt.Append(nil, value+1), zk.AnyVersion))
	k.mu.Lock()
	defer k.mu.Unlock()
	switch n := k.counters[l.counted]; {
	case err == nil:
		n.done++
	case zk.MayHaveHappened(err):
		n.unknown++
	}
}

// observe asks who leads.
func (k *worker) observe(ctx context.Context, l locker) {
	waiting, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	o := l.parts[0]
	o.Client, o.Kind, o.Call = k.number, chaos.Observe, k.log.Now()
	leader, err := l.election.Leader(waiting)
	o.Return = k.log.Now()
	switch {
	case err == nil:
		o.Outcome, o.Token = chaos.OK, leader.Term
		k.log.Add(o)
	case !errors.Is(err, holdfast.ErrNoLeader):
		k.refused(waiting, l, false, err)
	}
}
