package queue

import (
	"context"
	"time"

	"holdfast/zk"
)

// FirstPause is the pause after which a caller of this package looks again.
const FirstPause = 10 * time.Millisecond

// Retry is zk.Retry.
func Retry(ctx context.Context, send func() error) error { return zk.Retry(ctx, send) }

// Repeat is zk.Repeat.
func Repeat(ctx context.Context, send func() error) error { return zk.Repeat(ctx, send) }

// AwaitEvent waits for an event, at most for as long as again says.
func AwaitEvent(ctx context.Context, event <-chan zk.Event, again time.Duration) (changed bool, _ error) {
	timer := time.NewTimer(again)
	defer timer.Stop()
	select {
	case ev := <-event:
		return true, ev.Err
	case <-timer.C:
		return false, nil
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
}
