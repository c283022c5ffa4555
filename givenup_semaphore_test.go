package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkserver"
	"holdfast/zktest"
)

// Whoever waits for permits watches the limit and the permits, and takes these watches
// back however the wait ends: they are as many as the semaphores that one program has ever
// waited for, and a server has a limit. Here it is a low one, so what is left behind is
// soon in the way of the next.
func TestGivenUpAcquireLeavesNoWatch(t *testing.T) {
	const limit = 8
	ends := map[string]func(t *testing.T, c *zk.Client, path string, cancel context.CancelFunc){
		"its context ends": func(_ *testing.T, _ *zk.Client, _ string, cancel context.CancelFunc) { cancel() },
		"it loses its place first": func(t *testing.T, c *zk.Client, path string, cancel context.CancelFunc) {
			turns, _, err := c.Children(t.Context(), path+"/locks")
			if err != nil || len(turns) != 1 {
				t.Fatalf("at the turnstile: %q, %v", turns, err)
			}
			if err := c.Delete(t.Context(), path+"/locks/"+turns[0], zk.AnyVersion); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // it queues again
			cancel()
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := zktest.NewServer(func(c *zkserver.Config) { c.Limits.WatchesPerConnection = limit })
				defer srv.Close()
				c, other := client(t, srv), srv.Client()
				for i := range limit {
					path := fmt.Sprintf("%s-%d", lockPath, i)
					holder := srv.Client() // that its own watches are not in its way
					h := lock(t, holdfast.NewSemaphore(holder, path, 1).Locker())
					ctx, cancel := context.WithCancel(t.Context())
					w := wait(ctx, holdfast.NewSemaphore(c, path, 1).Locker())
					if !w.waiting() {
						t.Fatalf("semaphore %d: %v", i, w.err)
					}
					end(t, other, path, cancel)
					if <-w.done; !errors.Is(w.err, context.Canceled) {
						t.Fatalf("semaphore %d: %v", i, w.err)
					}
					unlock(t, h)
				}
			})
		})
	}
}
