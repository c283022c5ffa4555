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
