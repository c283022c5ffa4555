package holdfast_test

import (
	"context"
	"sync/atomic"
	"testing"

	"holdfast"
	"holdfast/zktest"
)

// A spentContext ends without a word to those who wait for its Done: so it is for whoever
// is woken by something else at the same moment.
type spentContext struct {
	context.Context
	spent atomic.Bool
}

func (c *spentContext) Done() <-chan struct{} { return nil }

func (c *spentContext) Err() error {
	if c.spent.Load() {
		return context.Canceled
	}
	return nil
}

// The context ends, and the way is free: whoever gets the lock then has nobody who would
// give it back (etcd #10111).
func TestWhoHasGivenUpGetsNoLock(t *testing.T) {
	kinds := map[string]func(*testing.T, *zktest.Server) holdfast.Locker{
		"mutex": func(t *testing.T, srv *zktest.Server) holdfast.Locker {
			return holdfast.NewMutex(client(t, srv), lockPath)
		},
		"node lock": func(t *testing.T, srv *zktest.Server) holdfast.Locker {
			return holdfast.NewNodeLock(client(t, srv), lockPath)
		},
		"semaphore": func(t *testing.T, srv *zktest.Server) holdfast.Locker {
			return holdfast.NewSemaphore(client(t, srv), lockPath, 1).Locker()
		},
		"mutex that is handed on in memory": func(t *testing.T, srv *zktest.Server) holdfast.Locker {
			return inMemory(client(t, srv), 3)
		},
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				h := lock(t, kind(t, srv))
				ctx := &spentContext{Context: t.Context()}
				w := wait(ctx, kind(t, srv))
				if !w.waiting() {
					t.Fatal(w.err)
				}
				ctx.spent.Store(true)
				unlock(t, h)
				<-w.done
				wantErr(t, w.err, context.Canceled)
				if w.hold != nil {
					t.Error("there is a Hold")
				}
				unlock(t, lock(t, kind(t, srv))) // and nobody's node is in the way
			})
		})
	}
}
