package queue

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"holdfast/zk"
)

// FirstPause and longestPause bound the pause before a request is sent again. The server may be busy
// because of many clients, so they must not come back together, nor at once.
const (
	FirstPause   = 10 * time.Millisecond
	longestPause = time.Second
)

// Retry sends a request until the server has executed or refused it. It sends the request again, and
// backs off, while the error says that it had no effect and is worth sending again (zk.SafeToRetry:
// the server throttles, or the connection broke under a read or before the request left). ctx must be
// the context of the request. Once it has ended, the next attempt is the last: it fails without being
// sent, and says why ctx has ended, and how the attempt before failed.
func Retry(ctx context.Context, send func() error) error {
	return backOff(ctx, send, zk.SafeToRetry)
}

// Repeat is Retry for requests that may as well be executed twice: it sends them again after every
// lost connection.
func Repeat(ctx context.Context, send func() error) error {
	return backOff(ctx, send, func(err error) bool { return zk.SafeToRetry(err) || errors.Is(err, zk.ErrConnectionLoss) })
}

func backOff(ctx context.Context, send func() error, again func(error) bool) error {
	for pause := FirstPause; ; pause = min(2*pause, longestPause) {
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
