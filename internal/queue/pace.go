package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"holdfast/zk"
)

// FirstPause is the pause after which a caller of this package looks again.
const FirstPause = 10 * time.Millisecond

// lookAgainAfter is the least time of LookAgain.
const lookAgainAfter = 30 * time.Second

// LookAgain returns the time after which a wait for an event looks whether the event was lost. It is long, and not
// the same for all, so that a crowd of waiters costs a server little: 10,000 waiters read 220 times a second.
func LookAgain() time.Duration { return lookAgainAfter + rand.N(lookAgainAfter) }

// alarms wake the waiters of a session that have waited for long. The waiters that wake in the same second share a timer
// and a channel, because thousands may wait and a timer is large.
var alarms zk.Shared[alarm]

type alarm struct {
	sync.Mutex
	at map[int64]chan struct{} // by the second in which it is closed
}

// after returns a channel that is closed after d, rounded up to a second.
func (a *alarm) after(d time.Duration) <-chan struct{} {
	second := time.Now().Add(d).Unix() + 1
	a.Lock()
	defer a.Unlock()
	c := a.at[second]
	if c == nil {
		c = make(chan struct{})
		if a.at == nil {
			a.at = make(map[int64]chan struct{})
		}
		a.at[second] = c
		time.AfterFunc(time.Until(time.Unix(second, 0)), func() {
			a.Lock()
			delete(a.at, second)
			a.Unlock()
			close(c)
		})
	}
	return c
}

// A Pace counts how often work has begun that others end again and again, such as a wait whose node is removed. The
// work begins again at once for the first time, and later after a pause of up to a second. 0 means that it does not.
type Pace int

// calm is how long work must have gone on to count as the first again.
const calm = 10 * time.Second

// Next pauses before the work begins again. It is 0 if ctx has ended.
func (p Pace) Next(ctx context.Context) Pace {
	if p > 1 {
		pause := min(FirstPause<<min(p-2, 10), time.Second)
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
	if ctx.Err() != nil {
		return 0
	}
	return p + 1
}

// NextAfter is Next for work that has gone on since began.
func (p Pace) NextAfter(ctx context.Context, began time.Time) Pace {
	if time.Since(began) > calm {
		p = 1
	}
	return p.Next(ctx)
}

// Outlived reports whether to enter again after err: while ctx lives, if the session has ended or the
// node was removed. A wait goes on then; a tenure does not. Otherwise it returns 0 and the error of Lock: nil
// after a success, or why Lock fails.
func (p Pace) Outlived(ctx context.Context, err error) (Pace, error) {
	if !errors.Is(err, zk.ErrSessionExpired) && !errors.Is(err, ErrGone) {
		return 0, err
	}
	if p = p.Next(ctx); p == 0 { // the caller has given up, whatever came first
		return 0, context.Cause(ctx)
	}
	return p, nil
}
