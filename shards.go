package holdfast

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/internal/balance"
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// Shards spreads n numbered shards over any number of workers. Each call of Run is a worker. Every shard is
// a Mutex, so at most one worker has it at a time, with a token that grows with every tenure. A Shards has
// no state of its own and is safe for concurrent use.
//
// One worker, the leader, writes a plan of who should have which shard. The plan is advice only: if it is
// wrong or late, shards are with the wrong worker or with nobody, never with two. Every worker has its share
// of the shards by weight, to within one. With equal weights, a join moves only shards to the newcomer, and a
// leave moves only those of the leaver.
//
// A join or a leave counts when it has lasted for one second (WithSettle). So a worker that flaps does not
// move the shards of others. There is one exception: if the plan changes anyway, a worker that has just joined
// is in it at once. The shards of a worker that crashed are with others soon after its session has ended at
// the server and that second has passed. If the leader crashes, the next leader counts that second from its
// own beginning.
//
// A lock of another kind at path itself is refused with ErrKind while a worker is there or a shard is locked. While
// such a lock is in use, Run fails with ErrKind. So does Run with a [Tree] at path or above it.
//
// The plan and the number of shards are stored in the node at path, a container. The workers are a queue at
// <path>/workers; its first is the leader, so do not lock that path yourself. The queues of the shards are at
// <path>/shards/<number>. The server removes all of that some time after the last worker has left.
type Shards struct {
	lock     lock // the node with the plan
	workers  lock
	settings shardOptions
	n        int
}

// A Shard is one tenure of a shard, for the function of Run.
type Shard struct {
	Number int   // from 0 on
	Token  int64 // the fencing token: it grows with every tenure of the shard
	// Hold is that of the shard's Mutex, for Commit and Deadline. The function must not unlock it. Its Context
	// does not end when the shard is to move: use the function's.
	Hold *Hold
}

type shardOptions struct {
	weight                      int
	settle, moveLimit, handover time.Duration
}

const (
	defaultSettle    = time.Second
	defaultMoveLimit = 30 * time.Second
)

// WithWeight is the share of a worker of Shards relative to the others: with weight 2 it has twice the shards
// of a worker with weight 1, the default. The largest weight is 1,048,576. A worker of weight 0 has no
// shards, but may lead.
func WithWeight(weight int) Option {
	return func(o *options) {
		o.shards.weight = weight
		setNumber(o, setWeight, weight, true)
	}
}

// WithSettle is how long a worker of Shards must be present before the plan changes for it, and absent before
// others get its shards. The default is one second. The leader's setting counts, so all workers should have
// the same.
func WithSettle(d time.Duration) Option {
	return func(o *options) {
		o.shards.settle = d
		setNumber(o, setSettle, d, true)
	}
}

// WithMoveLimit is how long the function of a shard may go on after the shard's context has ended. The
// default is 30 seconds. After that, Run ends with ErrStuck.
func WithMoveLimit(d time.Duration) Option {
	return func(o *options) {
		o.shards.moveLimit = d
		setNumber(o, setMoveLimit, d, true)
	}
}

// WithHandover lets a worker go on after the end of Run's context, for at most d, until other workers take its
// shards. So these shards are not without a worker while the leave settles. Choose d longer than the settling
// time (WithSettle) and the moves together. If no other worker is there, the worker stops after d. The default
// is 0: the worker stops at once.
func WithHandover(d time.Duration) Option {
	return func(o *options) {
		o.shards.handover = d
		setNumber(o, setHandover, d, true)
	}
}

// NewShards names n shards at path; n is 1 to 65,536. The first worker stores n. If n differs from the stored number,
// Run fails with ErrShardCount while a worker is there or a shard is locked. When there is none, the new number counts.
//
// NewShards sends nothing.
func NewShards(c *zk.Client, path string, n int, opts ...Option) *Shards {
	o := newOptions("a Shards", opts)
	return &Shards{
		lock:     newLock(c, path, queue.Shards, o),
		workers:  newPart(c, path+"/"+queue.ShardWorkers, path, queue.Shards, o),
		settings: o.shards,
		n:        n,
	}
}

// Path is the path of a shard's Mutex, for List and Break.
func (s *Shards) Path(shard int) string {
	return fmt.Sprintf("%s/%s/%04d", s.lock.Path, queue.ShardQueues, shard)
}

// Run makes the caller a worker. It calls f once for each shard that the worker has, each in a goroutine of
// its own, until ctx ends or something fails. Run always returns an error: the cause of ctx, the errors of the
// functions, or the reason why the worker could not go on. When Run returns, it has unlocked all of its
// shards, except those of ErrStuck.
//
// The context of f ends with the cause ErrMoving when the shard is to move to another worker. f should save
// its work and return. Then Run unlocks the shard, and only then another worker can have it. The context ends
// with a cause that is ErrLost when the lock is lost. Then another worker may have the shard already. If the
// shard is still this worker's after a loss, Run acquires it again, and calls f again, with a larger token.
// It never calls f for a shard that an earlier call of f is still busy with. If somebody takes the shard away again
// and again, Run pauses in between, up to a second. When Run ends, the cause is that
// of ctx, or the error that ended Run. With WithHandover, the end of ctx moves the shards first.
//
// If f returns nil before its context has ended, the worker keeps the shard, and f is not called again until
// the shard has moved or was lost. If f returns an error, Run ends. Once the shard's context has ended, an error
// does not count if it is the context's cause, ErrLost or context.Canceled.
//
// If f does not return in time after its context has ended (WithMoveLimit), Run ends with ErrStuck. It does
// not wait for that f. The shard stays locked until f returns or the session ends, and the next worker waits:
// nobody can know whether f still writes. A program that cannot stop f should exit.
//
// When a session ends, the work goes on in the next one. After the end of ctx, Run waits for the handover, for
// the functions, and for the server to confirm that the shards are unlocked. If no server can be reached then,
// Run waits for the end of the session at the most.
//
// The other errors are ErrShardCount; ErrKind if another kind of lock has the path, or the name of a shard or of the
// queue of the workers; zk.ErrBadArguments if a setting is too large.
func (s *Shards) Run(ctx context.Context, f func(context.Context, Shard) error) error {
	err := s.run(ctx, f)
	return &Error{Op: "run shards", Path: s.lock.Path, Err: err}
}

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
		if r.handover == 0 {
			end(context.Cause(ctx))
			return
		}
		r.lookAgain() // it may have no shards
		limit := time.NewTimer(r.handover)
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
	campaign.Go(func() { r.fail(r.campaign(member)) }) // see shard_leader.go
	r.fail(r.follow(working))
	campaign.Wait()
	r.dismiss()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.errs) > 0 {
		return errors.Join(r.errs...)
	}
	return context.Cause(ctx)
}

// A shardWorker is one Run.
type shardWorker struct {
	*Shards
	id        string // the same in all sessions
	self      []byte // the data of our node among the workers
	f         func(context.Context, Shard) error
	settle    time.Duration
	moveLimit time.Duration
	handover  time.Duration
	end       context.CancelCauseFunc // ends the work
	leaving   context.Context         // the context of Run; it ends before the work does

	planned chan struct{} // holds one if there is a plan that the leader has not seen
	again   chan struct{} // holds one if follow has to call adopt: a keeper has ended, or Run's context has

	mu      sync.Mutex // guards the fields below
	latest  storedPlan
	keepers map[int]*keeper    // of the shards that we have, or are about to
	paces   map[int]queue.Pace // of those that others have taken away
	errs    []error            // that end Run
}

// newWorker checks the settings.
func (s *Shards) newWorker(f func(context.Context, Shard) error) (*shardWorker, error) {
	w := balance.Worker{Weight: s.settings.weight, Owner: s.lock.note.Owner}
	r := &shardWorker{
		Shards: s, f: f, settle: s.settings.settle, moveLimit: s.settings.moveLimit, handover: s.settings.handover,
		planned: make(chan struct{}, 1), again: make(chan struct{}, 1), keepers: make(map[int]*keeper), paces: make(map[int]queue.Pace),
	}
	switch {
	case s.n < 1 || s.n > balance.MaxShards:
		return nil, fmt.Errorf("%w: %d: want 1 to %d", ErrShardCount, s.n, balance.MaxShards)
	case w.Weight > balance.MaxWeight:
		return nil, fmt.Errorf("%w: WithWeight(%d): want 0 to %d", zk.ErrBadArguments, w.Weight, balance.MaxWeight)
	}
	if err := s.lock.valid(); err != nil {
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
func (r *shardWorker) fail(err error) {
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
func (r *shardWorker) follow(ctx context.Context) error {
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
func (r *shardWorker) await(ctx context.Context, watch *zk.Watch) error {
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
func (r *shardWorker) adopt(ctx context.Context) {
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
func (r *shardWorker) lookAgain() {
	select {
	case r.again <- struct{}{}:
	default:
	}
}

// dismiss waits for the keepers to end, except those that are stuck. The context of the work has ended, so no
// keeper begins any more.
func (r *shardWorker) dismiss() {
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
	worker *shardWorker
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
	l := newPart(r.lock.Client, r.Path(k.number), r.lock.Path, queue.Shards, r.lock.options)
	h, err := l.wait(ctx, "lock", names.Mutex)
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
func (k *keeper) keep(ctx context.Context, h *Hold) error {
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
	if err := h.Unlock(); err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrNotHeld) {
		return err
	}
	return nil
}

// call calls the function. An error does not count if it only says that the context has ended.
func (k *keeper) call(held context.Context, h *Hold) error {
	returned := make(chan struct{})
	defer close(returned)
	defer context.AfterFunc(held, func() { k.guard(returned) })()
	err := k.worker.f(held, Shard{Number: k.number, Token: h.Token(), Hold: h})
	if held.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) || errors.Is(err, context.Cause(held))) {
		return nil
	}
	return err
}

// guard ends Run if the function does not return in time. The shard stays locked. guard ends with the
// function, or after the limit.
func (k *keeper) guard(returned <-chan struct{}) {
	limit := time.NewTimer(k.worker.moveLimit)
	defer limit.Stop()
	select {
	case <-returned:
	case <-limit.C:
		k.worker.fail(fmt.Errorf("shard %d: %w after %v", k.number, ErrStuck, k.worker.moveLimit))
		close(k.stuck)
	}
}
