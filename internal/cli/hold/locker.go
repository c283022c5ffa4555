package hold

import (
	"context"
	"errors"
	"slices"
	"time"

	"holdfast"
	"holdfast/internal/cli/outer"
	"holdfast/internal/lend"
	"holdfast/internal/proc"
	"holdfast/reserve"
	"holdfast/zk"
)

// locker returns the lock of the flags, or a MultiLock with --also.
func (k *taker) locker(c *zk.Client) holdfast.Locker {
	f := k.plan.kind
	layout := holdfast.WithLayout(f.Layout.Layout)
	who := []holdfast.Option{
		holdfast.WithOwner(k.plan.Who), holdfast.WithReason(k.plan.why), holdfast.WithLabels(k.plan.Labels), lend.WithinSession(outer.Session(k.plan.Target.URL)).(holdfast.Option), k.plan.Metrics.Observed(),
	}
	if k.plan.yields {
		who = append(who, lend.WithDetection(nil).(holdfast.Option))
	}
	if !k.plan.detached.on { // a detached lock outlives its process
		who = append(who, OfProcess()...)
	}
	opts := append(slices.Clip(who), layout)
	one := func(path string) holdfast.Locker {
		switch {
		case f.shared:
			return holdfast.NewRWMutex(c, path, opts...).RLocker()
		case f.exclusive:
			return holdfast.NewRWMutex(c, path, append(opts, k.room()...)...)
		case f.slot:
			return holdfast.NewSlots(c, path, f.limit, who...).Locker(f.permits, f.prefer...)
		case f.limit > 0:
			return holdfast.NewSemaphore(c, path, f.limit, opts...).Locker(f.permits)
		case f.node:
			return holdfast.NewNodeLock(c, path, who...)
		case k.plan.detached.on:
			k.claims = &claimer{Detached: holdfast.NewDetached(c, path, k.plan.detached.expires, opts...)}
			return k.claims
		}
		return holdfast.NewMutex(c, path, append(opts, k.room()...)...)
	}
	switch {
	case f.tree:
		return holdfast.NewTree(c, k.plan.place.root, opts...).Path(k.plan.place.below)
	case k.plan.Locker != nil:
		return k.plan.Locker(c)
	case k.plan.detached.on: // it has no session that could wait at the head of the queue
		return one(k.plan.Path)
	case len(k.plan.also) == 0:
		return reserve.Locker(one(k.plan.Path))
	}
	all := []holdfast.Locker{one(k.plan.Path)}
	for _, path := range k.plan.also {
		all = append(all, one(path))
	}
	return reserve.Locker(holdfast.NewMultiLock(all...))
}

// OfProcess returns the options that note this process in the nodes of its locks, so that others can tell when it is dead.
// There are none where that cannot be known.
func OfProcess() []holdfast.Option {
	group, err := proc.Self()
	if err != nil {
		return nil
	}
	return []holdfast.Option{lend.WithProcess(group.Append(nil)).(holdfast.Option)}
}

// room returns the options of the lock for these flags.
func (k *taker) room() []holdfast.Option {
	f := k.plan.room
	switch {
	case f.supersede:
		return []holdfast.Option{holdfast.WithSupersede(), k.arrival}
	case f.max > 0:
		return []holdfast.Option{holdfast.WithQueueMax(f.max, f.full.Is("old")), k.arrival}
	}
	return nil
}

// resized calls acquire with the lock, and again after it has changed the number of permits or slots, if --resize asks
// for that.
func (k *taker) resized(ctx context.Context, c *zk.Client, acquire func(holdfast.Locker) (*holdfast.Hold, error)) (*holdfast.Hold, error) {
	h, err := acquire(k.locker(c))
	if !k.plan.kind.resize || !errors.Is(err, holdfast.ErrLimit) {
		return h, err
	}
	if k.plan.kind.slot {
		err = holdfast.NewSlots(c, k.plan.Path, 0).SetLimit(ctx, k.plan.kind.limit)
	} else {
		err = holdfast.NewSemaphore(c, k.plan.Path, 0, holdfast.WithLayout(k.plan.kind.Layout.Layout)).SetLimit(ctx, k.plan.kind.limit)
	}
	if err != nil {
		return nil, err
	}
	return acquire(k.locker(c))
}

// A claimer is a Locker for a lock that no session owns. Its Holds are nil: claim has the lock.
type claimer struct {
	*holdfast.Detached
	claim holdfast.Claim
}

func (c *claimer) Lock(ctx context.Context) (_ *holdfast.Hold, err error) {
	c.claim, err = c.Detached.Lock(ctx)
	return nil, err
}

func (c *claimer) TryLock(ctx context.Context) (_ *holdfast.Hold, err error) {
	c.claim, err = c.Detached.TryLock(ctx)
	return nil, err
}

// withdraw releases the lock again.
func (c *claimer) withdraw(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.Unlock(ctx, c.claim.ID)
}
