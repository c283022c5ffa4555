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

// A worker acquires and releases locks.
type worker struct {
	*world
	client  *client
	number  int
	rng     *rand.Rand
	locks   []lockSpec
	turns   int
	of      *zk.Client // the client of its lockers
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
		case l.election != nil && k.rng.IntN(8) == 0:
			k.follow(ctx, l)
		case l.semaphore != nil && k.rng.IntN(8) == 0:
			k.count(ctx, l)
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

// turn is one attempt, and the work under the lock if it succeeds.
func (k *worker) turn(ctx context.Context, l locker) {
	patience := 3 * k.timeout
	if l.crowded {
		patience = 8 * k.timeout
	}
	if k.rng.IntN(3) == 0 { // the worker gives up, at any moment
		patience = time.Duration(k.rng.ExpFloat64() * float64(k.timeout) / 8)
	}
	waiting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer time.AfterFunc(patience, func() {
		if !k.draining.Load() { // after that, every worker in line must get its turn
			cancel(context.DeadlineExceeded)
		}
	}).Stop()
	k.turns++
	if l.value != nil {
		*l.value = fmt.Sprintf("worker %d turn %d", k.number, k.turns)
	}
	lock, a := l.lock, chaos.Attempt{Client: k.number, Locks: l.parts, Tree: l.tree, Session: k.client.session.Load}
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

// refused checks an error: a worker may see only a few.
func (k *worker) refused(ctx context.Context, l locker, try bool, err error) {
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
	case errors.Is(err, holdfast.ErrLocked):
	case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrConnectionLoss): // for a TryLock
	case errors.Is(err, zk.ErrClosed): // the client was killed
	case try && strings.HasSuffix(err.Error(), "its node is gone"): // a waiter queues again
	case (errors.Is(err, holdfast.ErrSuperseded) || errors.Is(err, holdfast.ErrQueueFull)) && k.specOf(l).makesRoom:
		if errors.Is(err, holdfast.ErrQueueFull) {
			k.newest.full.Add(1)
		}
	case errors.Is(err, holdfast.ErrKind) && k.specOf(l).clashes:
	case errors.Is(err, holdfast.ErrLimit) && (k.specOf(l).limits > 0 || k.specOf(l).clashes): // the limit is lower than the permits it wants, at present
	default:
		k.found("error", l.parts[0].Lock, "%v (context: %v)", err, context.Cause(ctx))
	}
}

// specOf returns the lock that l takes.
func (k *worker) specOf(l locker) lockSpec {
	for _, spec := range k.locks {
		for _, id := range spec.ids {
			if id.id == l.parts[0].Lock {
				return spec
			}
		}
	}
	return lockSpec{}
}

// hold does something under the lock.
func (k *worker) hold(ctx context.Context, l locker, claim *chaos.Claim) {
	live := k.claimed(k.client, claim)
	until := time.Duration(k.rng.ExpFloat64() * float64(400*time.Millisecond))
	if l.crowded {
		until /= 8
	}
	if k.skew != 0 {
		until = 3 * k.timeout // wrong clocks show only in long holds
	} else if k.rng.IntN(8) == 0 && !l.crowded {
		until = k.timeout / 2 * time.Duration(1+k.rng.IntN(3)) // the session must be kept alive for that
	}
	end := time.Now().Add(until)
	if l.counted != "" && k.rng.IntN(2) == 0 {
		k.add(ctx, l, claim)
	}
	var inner *chaos.Claim
	if l.inner != nil && k.rng.IntN(4) == 0 {
		inner = k.again(l, claim)
		if k.turns%2 == 0 { // and once more, beside the first or after it
			if more := k.again(l, claim); more != nil {
				k.unlock(ctx, l, more, nil)
			}
		}
	}
	if l.election != nil && k.rng.IntN(2) == 0 {
		l.election.Proclaim(ctx, claim.Hold, []byte(*l.value+" still"))
	}
	obeys := k.rng.IntN(2) == 0
	k.keep(claim, time.Until(end), obeys)
	if k.rng.IntN(2) == 0 && inner != nil { // either may be released first
		k.unlock(ctx, l, claim, live)
		k.sleep(inner.Context(), 100*time.Millisecond)
		k.unlock(ctx, l, inner, nil)
		return
	}
	if inner != nil {
		k.unlock(ctx, l, inner, nil)
	}
	k.unlock(ctx, l, claim, live)
}

// keep holds the lock for a time, or until it is asked to release and obeys.
func (k *worker) keep(claim *chaos.Claim, d time.Duration, obeys bool) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	revoked := claim.Revoked()
	if !obeys {
		revoked = nil
	}
	select {
	case <-timer.C:
	case <-revoked:
	case <-claim.Context().Done():
	}
}

// unlock ends a claim in one of the three ways.
func (k *worker) unlock(ctx context.Context, l locker, c *chaos.Claim, live *liveClaim) {
	var err error
	commits := false
	switch k.rng.IntN(6) {
	case 0:
		k.unclaimed(live)
		err = c.Release()
	case 1:
		commits = true
		end := func(ops ...zk.Op) error {
			k.unclaimed(live)
			return c.EndBy(func() error {
				_, err := c.CommitAndUnlock(context.WithoutCancel(ctx), ops...)
				return err
			})
		}
		done := false
		if l.counted != "" {
			done, err = k.update(ctx, l, c, end)
		}
		if !done {
			err = end()
		}
	default:
		k.unclaimed(live)
		err = c.Unlock()
	}
	switch {
	case err == nil, errors.Is(err, holdfast.ErrLost):
	case commits && (zk.MayHaveHappened(err) || errors.Is(err, zk.ErrConnectionLoss) || errors.Is(err, zk.ErrClosed)):
	default:
		k.found("error", c.Path(), "unlock: %v", err)
	}
}

// again takes a lock that is already held: a re-entrant one, or the read side.
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

// A counted is a value that holders update with Commit.
type counted struct{ updates []chaos.Update }

// add updates the lock's value, slowly, with Commit: an update by another client in between
// would be lost.
func (k *worker) add(ctx context.Context, l locker, claim *chaos.Claim) {
	k.update(ctx, l, claim, func(ops ...zk.Op) error {
		_, err := claim.Commit(context.WithoutCancel(ctx), ops...)
		return err
	})
}

// update is add with a way to commit. done: commit was called.
func (k *worker) update(ctx context.Context, l locker, claim *chaos.Claim, commit func(...zk.Op) error) (done bool, _ error) {
	data, _, err := k.of.Get(claim.Context(), l.counted)
	if err != nil {
		return false, nil
	}
	var u chaos.Update
	if _, err := fmt.Sscan(string(data), &u.Read); err != nil {
		k.found("error", l.counted, "the value is %q", data)
		return false, nil
	}
	k.mu.Lock()
	k.updates++
	u.ID = k.updates
	k.mu.Unlock()
	k.sleep(ctx, time.Duration(k.rng.ExpFloat64()*float64(100*time.Millisecond)))
	err = commit(zk.SetOp(l.counted, fmt.Append(nil, u.ID), zk.AnyVersion))
	k.mu.Lock()
	defer k.mu.Unlock()
	if u.Acknowledged = err == nil; u.Acknowledged || zk.MayHaveHappened(err) {
		n := k.counters[l.counted]
		n.updates = append(n.updates, u)
	}
	return true, err
}

// count asks a semaphore how many permits are free.
func (k *worker) count(ctx context.Context, l locker) {
	waiting, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	free, limit, err := l.semaphore.Available(waiting)
	switch {
	case err != nil:
		k.refused(waiting, l, true, err)
	case free < 0 || free > limit || limit < 1 || limit > 4:
		k.found("error", l.parts[0].Lock, "%d of %d permits are free", free, limit)
	}
}

// observe asks for the leader.
func (k *worker) observe(ctx context.Context, l locker) {
	waiting, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	o := l.parts[0]
	o.Client, o.Kind, o.Call = k.number, chaos.Observe, k.log.Now()
	leader, err := l.election.Leader(waiting)
	o.Return = k.log.Now()
	if k.many != nil {
		// A leading server answers a sync at once, though it may have applied less than others have
		// shown (see zk's Sync). So the answer may be that old.
		o.Call = max(0, o.Call-2*k.many.applyLag)
	}
	switch {
	case err == nil:
		o.Outcome, o.Token = chaos.OK, leader.Term
		k.log.Add(o)
		k.leads(leader)
	case !errors.Is(err, holdfast.ErrNoLeader):
		k.refused(waiting, l, false, err)
	}
}

// follow observes leaders for a while. Their terms never go back, and each value is the
// leader's own. When there is no leader in the end, it is told so.
func (k *worker) follow(ctx context.Context, l locker) {
	following, cancel := context.WithTimeout(ctx, min(time.Duration(k.rng.ExpFloat64()*float64(4*k.timeout)), 20*k.timeout))
	defer cancel()
	var last holdfast.Leader
	for leader, err := range l.election.Leaders(following) {
		switch {
		case err != nil:
			k.refused(following, l, false, err)
			return
		case leader.Term == 0: // nobody leads
			continue
		case leader.Term < last.Term:
			k.found("term", l.parts[0].Lock, "a follower was told of term %d after %d", leader.Term, last.Term)
		}
		last = leader
		k.leads(leader)
		if k.rng.IntN(32) == 0 {
			return
		}
	}
}

// leads records a leader's value: a term is one turn of one worker.
func (w *world) leads(leader holdfast.Leader) {
	if leader.Value == nil { // unknown at present
		return
	}
	turn := strings.TrimSuffix(string(leader.Value), " still")
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.said == nil {
		w.said = make(map[int64]string)
	}
	before, known := w.said[leader.Term]
	switch {
	case !strings.HasPrefix(turn, "worker "):
		w.wrong = append(w.wrong, chaos.Violation{Oracle: "leader", Lock: leader.Path, Text: fmt.Sprintf("the value of term %d is %q", leader.Term, leader.Value)})
	case known && before != turn:
		w.wrong = append(w.wrong, chaos.Violation{Oracle: "leader", Lock: leader.Path, Text: fmt.Sprintf("term %d is of %q and of %q", leader.Term, before, turn)})
	}
	w.said[leader.Term] = turn
}
