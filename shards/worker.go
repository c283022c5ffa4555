package shards

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast"
	"holdfast/internal/balance"
	"holdfast/internal/lend"
	"holdfast/internal/queue"
	"holdfast/zk"
)

// run implements Run.
func (s *Shards) run(ctx context.Context, f func(context.Context, Shard) error) error {
	r, err := s.newWorker(f)
	if err != nil {
		return err
	}
	working, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	r.end, r.leaving = end, ctx
	// After the end of ctx, the worker is not a member any more, and goes on for as long as the handover takes.
	member, leave := context.WithCancel(working)
	defer leave()
	defer context.AfterFunc(ctx, func() {
		leave()
		if r.set.handover == 0 {
			end(context.Cause(ctx))
			return
		}
		r.lookAgain() // it may have no shards
		limit := time.NewTimer(r.set.handover)
		defer limit.Stop()
		select {
		case <-limit.C:
			end(context.Cause(ctx))
		case <-working.Done():
		}
	})()
	// Programs that disagree about the number of shards are refused before they join.
	for turn := queue.Pace(1); turn > 0; {
		if turn, err = turn.Outlived(member, r.refresh(member)); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
	}
	var campaign sync.WaitGroup
	campaign.Go(func() { r.fail(r.campaign(member)) }) // see leader.go
	r.fail(r.follow(working))
	campaign.Wait()
	r.dismiss()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) > 0 {
		return lend.Joined(r.errs...)
	}
	return context.Cause(ctx)
}

// A worker is one Run.
type worker struct {
	*Shards
	id      string // the same in all sessions
	self    []byte // the data of our node among the workers
	f       func(context.Context, Shard) error
	end     context.CancelCauseFunc // ends the work
	leaving context.Context         // the context of Run; it ends before the work does

	planned chan struct{} // holds one if there is a plan that the leader has not seen
	again   chan struct{} // holds one if follow has to call adopt: a keeper has ended, or Run's context has

	mu      sync.Mutex // guards the fields below
	latest  storedPlan
	keepers map[int]*keeper    // of the shards that we have, or are about to
	paces   map[int]queue.Pace // of those that others have taken away
	errs    []error            // that end Run
}

// newWorker checks the settings.
func (s *Shards) newWorker(f func(context.Context, Shard) error) (*worker, error) {
	w := balance.Worker{Weight: s.set.weight, Owner: s.owner}
	r := &worker{
		Shards: s, f: f,
		planned: make(chan struct{}, 1), again: make(chan struct{}, 1), keepers: make(map[int]*keeper), paces: make(map[int]queue.Pace),
	}
	switch {
	case s.n < 1 || s.n > balance.MaxShards:
		return nil, fmt.Errorf("%w: %d: want 1 to %d", ErrCount, s.n, balance.MaxShards)
	case w.Weight > balance.MaxWeight:
		return nil, fmt.Errorf("%w: WithWeight(%d): want 0 to %d", zk.ErrBadArguments, w.Weight, balance.MaxWeight)
	}
	if err := s.valid(); err != nil {
		return nil, err
	}
	id := make([]byte, 8)
	rand.Read(id)
	r.id = hex.EncodeToString(id)
	w.ID = r.id
	var err error
	r.self, err = w.Encode()
	return r, err
}

// fail ends Run because of err, unless that is only why Run is ending anyway.
func (r *worker) fail(err error) {
	if err == nil || errors.Is(err, errRunEnds) {
		return
	}
	r.mu.Lock()
	r.errs = append(r.errs, err)
	r.mu.Unlock()
	r.end(err)
}

// follow reads the plan, and again whenever it changes, through one session after the other. It starts and
// stops keepers accordingly.
func (r *worker) follow(ctx context.Context) error {
	for {
		watch, err := r.look(ctx)
		if err == nil {
			r.adopt(ctx)
			err = r.await(ctx, watch)
		}
		if err != nil && (ctx.Err() != nil || !errors.Is(err, zk.ErrSessionExpired)) {
			return unlessEnded(ctx, err)
		}
	}
}

// await returns when the plan may have changed.
func (r *worker) await(ctx context.Context, watch *zk.Watch) error {
	again := time.NewTimer(queue.LookAgain())
	defer again.Stop()
	for {
		select {
		case ev := <-watch.C:
			return ev.Err
		case <-again.C:
			watch.Stop()
			return nil
		case <-r.again:
			r.adopt(ctx)
		case <-ctx.Done():
			watch.Stop()
			return context.Cause(ctx)
		}
	}
}

// adopt starts keepers of shards that the latest plan gives us, and stops the others. Without any workers,
// the plan is one that was just stored anew, and changes nothing. The work ends when others have everything
// after a handover.
func (r *worker) adopt(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	ours := r.latest.Of(r.id)
	for _, i := range ours {
		if r.keepers[i] == nil { // or it has to end first
			k := &keeper{worker: r, number: i, done: make(chan struct{}), stuck: make(chan struct{})}
			var keeping context.Context
			keeping, k.stop = context.WithCancelCause(ctx)
			r.keepers[i] = k
			go k.run(keeping)
		}
	}
	for i, k := range r.keepers {
		if _, keep := slices.BinarySearch(ours, i); !keep && len(r.latest.Workers) > 0 {
			k.stop(ErrMoving)
		}
	}
	if r.leaving.Err() != nil && len(ours) == 0 && len(r.keepers) == 0 {
		r.end(context.Cause(r.leaving))
	}
}

// lookAgain makes follow call adopt.
func (r *worker) lookAgain() {
	select {
	case r.again <- struct{}{}:
	default:
	}
}

// dismiss waits for the keepers to end, except those that are stuck. The context of the work has ended, so no
// keeper begins any more.
func (r *worker) dismiss() {
	r.mu.Lock()
	var all []*keeper
	for _, k := range r.keepers {
		all = append(all, k)
	}
	r.mu.Unlock()
	for _, k := range all {
		select {
		case <-k.done:
		case <-k.stuck:
		}
	}
}

// A keeper has one shard for one tenure, or waits for it. Its goroutine belongs to Run.
type keeper struct {
	worker *worker
	number int
	stop   context.CancelCauseFunc
	done   chan struct{} // closed when the keeper has ended
	stuck  chan struct{} // closed when the function has not returned in time
}

// run acquires the shard and keeps it until ctx ends or the shard is lost. If the shard is still ours, another
// keeper follows.
func (k *keeper) run(ctx context.Context) {
	r := k.worker
	defer func() {
		k.stop(nil)
		r.mu.Lock()
		delete(r.keepers, k.number)
		r.mu.Unlock()
		close(k.done)
		r.lookAgain()
	}()
	h, err := r.mutex(r.Path(k.number)).Lock(ctx)
	if err != nil {
		r.fail(unlessEnded(ctx, err))
		return
	}
	began := time.Now()
	if err := k.keep(ctx, h); err != nil {
		r.fail(err)
		return
	}
	k.rest(ctx, began)
}

// rest pauses if the shard was lost, and was lost before: somebody may take it away again and again.
func (k *keeper) rest(ctx context.Context, began time.Time) {
	r := k.worker
	r.mu.Lock()
	turn := max(r.paces[k.number], 1)
	r.mu.Unlock()
	turn = turn.NextAfter(ctx, began)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.paces[k.number] = turn; turn == 0 { // it moves
		delete(r.paces, k.number)
	}
}

// keep calls the function under h, and unlocks when it has returned and the shard is to move or is lost.
func (k *keeper) keep(ctx context.Context, h *holdfast.Hold) error {
	held, cancel := context.WithCancelCause(h.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	// Deferred, so that a panic in the function, or its Goexit, does not keep the shard.
	defer func() {
		stop()
		cancel(nil)
		h.Unlock()
	}()
	if err := k.call(held, h); err != nil {
		return fmt.Errorf("shard %d: %w", k.number, err)
	}
	<-held.Done()
	if err := h.Unlock(); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrNotHeld) {
		return err
	}
	return nil
}

// call calls the function. An error does not count if it only says that the context has ended.
func (k *keeper) call(held context.Context, h *holdfast.Hold) error {
	returned := make(chan struct{})
	defer close(returned)
	defer context.AfterFunc(held, func() { k.guard(returned) })()
	err := k.worker.f(held, Shard{Number: k.number, Token: h.Token(), Hold: h})
	if held.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, holdfast.ErrLost) || errors.Is(err, context.Cause(held))) {
		return nil
	}
	return err
}

// guard ends Run if the function does not return in time. The shard stays locked. guard ends with the
// function, or after the limit.
func (k *keeper) guard(returned <-chan struct{}) {
	limit := time.NewTimer(k.worker.set.moveLimit)
	defer limit.Stop()
	select {
	case <-returned:
	case <-limit.C:
		k.worker.fail(fmt.Errorf("shard %d: %w after %v", k.number, ErrStuck, k.worker.set.moveLimit))
		close(k.stuck)
	}
}
