package shards

import (
	"fmt"
	"time"

	"holdfast"
	"holdfast/zk"
)

// An Option is a setting of one worker. With a negative time or number, every call fails with zk.ErrBadArguments.
type Option func(*options)

type options struct {
	weight                      int
	settle, moveLimit, handover time.Duration
	locks                       []holdfast.Option
	refused                     error // by an option, or by the table of options of package holdfast
}

const (
	defaultSettle    = time.Second
	defaultMoveLimit = 30 * time.Second
)

// WithWeight is the share of a worker relative to the others: with weight 2 it has twice the shards
// of a worker with weight 1, the default. The largest weight is 1,048,576. A worker of weight 0 has no
// shards, but may lead.
func WithWeight(weight int) Option {
	return func(o *options) {
		o.weight = weight
		refuseNegative(o, "WithWeight", weight)
	}
}

// WithSettle is how long a worker must be present before the plan changes for it, and absent before
// others get its shards. The default is one second. The leader's setting counts, so all workers should have
// the same.
func WithSettle(d time.Duration) Option {
	return func(o *options) {
		o.settle = d
		refuseNegative(o, "WithSettle", d)
	}
}

// WithMoveLimit is how long the function of a shard may go on after the shard's context has ended. The
// default is 30 seconds. After that, Run ends with ErrStuck.
func WithMoveLimit(d time.Duration) Option {
	return func(o *options) {
		o.moveLimit = d
		refuseNegative(o, "WithMoveLimit", d)
	}
}

// WithHandover lets a worker go on after the end of Run's context, for at most d, until other workers take its
// shards. So these shards are not without a worker while the leave settles. Choose d longer than the settling
// time (WithSettle) and the moves together. If no other worker is there, the worker stops after d. The default
// is 0: the worker stops at once.
func WithHandover(d time.Duration) Option {
	return func(o *options) {
		o.handover = d
		refuseNegative(o, "WithHandover", d)
	}
}

// WithLock adds options for the locks of the worker: holdfast.WithOwner, WithReason, WithLabels, WithACL and
// WithObserver. The owner is also that of the worker in Assignment. With any other option, every call fails with
// zk.ErrBadArguments.
func WithLock(opts ...holdfast.Option) Option {
	return func(o *options) { o.locks = append(o.locks, opts...) }
}

func refuseNegative[N int | time.Duration](o *options, option string, n N) {
	if n < 0 && o.refused == nil {
		o.refused = fmt.Errorf("%w: %s(%v) is negative", zk.ErrBadArguments, option, n)
	}
}
