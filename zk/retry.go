package zk

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// The pause before a request is sent again. The server may be busy because of many clients, so
// they must not come back together, nor at once.
const (
	firstPause   = 10 * time.Millisecond
	longestPause = time.Second
)

// Retry sends a request until the server has executed or refused it. It sends the request again,
// after a growing pause, while [SafeToRetry] of its error is true. ctx must be the context of the
// request. Once ctx has ended, the next attempt is the last: it fails without being sent. Its
// error says why ctx has ended, and how the attempt before failed.
func Retry(ctx context.Context, send func() error) error {
	return RetryIf(ctx, SafeToRetry, send)
}

// Repeat is Retry for a request that may as well be executed twice: it sends the request again
// after every lost connection.
func Repeat(ctx context.Context, send func() error) error {
	return RetryIf(ctx, func(err error) bool { return SafeToRetry(err) || errors.Is(err, ErrConnectionLoss) }, send)
}

// RetryIf is Retry with a condition of the caller's own: it sends the request again while again
// of its error is true.
func RetryIf(ctx context.Context, again func(error) bool, send func() error) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := send()
		if err == nil || !again(err) {
			return err
		}
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if last := send(); last != nil {
				return fmt.Errorf("%w (before that: %v)", last, err)
			}
			return nil
		}
	}
}
