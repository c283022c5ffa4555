package holdfast_test

import (
	"fmt"
	"testing"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// The server's clock is set while a detached lock is awaited, or held. Whoever comes then gets the lock when the time of
// the detached lock is over. A step back costs at most that time once more, from the first look. A step forward while
// the lock is held ends it earlier.
func TestDetachedUnderAClockThatMoves(t *testing.T) {
	const d = 10 * time.Second
	for _, by := range []time.Duration{-time.Hour, -3 * time.Second, 0, time.Hour} {
		for _, during := range []string{"wait", "hold"} {
			for _, tries := range []bool{true, false} {
				for _, denied := range []bool{false, true} { // others may not write its node
					if denied && (tries || during == "wait") {
						continue
					}
					t.Run(fmt.Sprintf("%v in the %s, tries=%v, denied=%v", by, during, tries, denied), func(t *testing.T) {
						inBubble(t, func(t *testing.T, srv *zktest.Server) {
							h := lock(t, holdfast.NewMutex(client(t, srv), lockPath))
							var opts []holdfast.Option
							if denied {
								opts = append(opts, holdfast.WithACL(zk.ACL{Perms: zk.PermRead | zk.PermCreate | zk.PermDelete, Scheme: "world", ID: "anyone"}))
							}
							got := make(chan holdfast.Claim, 1)
							go func() {
								c, err := holdfast.NewDetached(client(t, srv), lockPath, d, opts...).Lock(t.Context())
								if err != nil {
									t.Error(err)
								}
								got <- c
							}()
							time.Sleep(time.Second)
							if during == "wait" {
								srv.MoveClock(by)
							}
							time.Sleep(time.Second)
							unlock(t, h)
							claim := <-got
							began := time.Now()
							if during == "hold" {
								srv.MoveClock(by)
							}
							for tries && time.Since(began) < time.Minute {
								h, err := holdfast.NewMutex(client(t, srv), lockPath).TryLock(t.Context())
								if err == nil {
									unlock(t, h)
									break
								}
								wantErr(t, err, holdfast.ErrLocked)
								time.Sleep(time.Second)
							}
							if !tries {
								unlock(t, lock(t, holdfast.NewMutex(client(t, srv), lockPath)))
							}
							least, most := d-2*time.Second, d+2*time.Second
							switch {
							case during == "hold" && by > 0:
								least, most = 0, time.Second
							case by == -3*time.Second:
								most += 3 * time.Second
							}
							if took := time.Since(began); took < least || took > most {
								t.Errorf("the lock was free after %v; want %v to %v; %+v", took, least, most, claim)
							}
						})
					})
				}
			}
		}
	}
}
