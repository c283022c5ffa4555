//go:build unix

package hold

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/internal/cli/term"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// An attempt without a wait ends, whatever the server does, and does not say that the lock is held.
func TestTryEndsWhateverTheServerDoes(t *testing.T) {
	for name, action := range map[string]zktest.Action{"throttles": zktest.Throttle, "drops": zktest.DropRequest} {
		for _, op := range []zkproto.Op{zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpGetChildren2, zkproto.OpGetData} {
			t.Run(name+"/"+op.String(), func(t *testing.T) {
				inBubble(t, func(t *testing.T, srv *zktest.Server) {
					k := newTestTaker(srv)
					k.plan.try = true
					srv.Intercept(op, func(string) zktest.Action { return action })
					began := time.Now()
					got, err := k.take(nil)
					if got != nil {
						got.hold.Unlock()
						got.Close()
						return // it does without
					}
					if f := term.Explain(err); f.Code != term.ExitUnavailable {
						t.Errorf("%v: code %d", err, f.Code)
					}
					if took := time.Since(began); took > (TryPatience+1)*k.plan.Flags.Timeout {
						t.Errorf("took %v", took)
					}
				})
			})
		}
	}
}

// The decision comes first. Naming the holder of a very long queue reads a bounded number of places, and ends with the context.
func TestMessagesReadABoundedNumberOfPlaces(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := srv.Client()
		for _, path := range []string{"/holdfast", "/holdfast/locks", lockPath} {
			if _, _, err := c.Create(t.Context(), path, nil, zk.Persistent); err != nil {
				t.Fatal(err)
			}
		}
		for range 6 {
			var ops []zk.Op
			for range 500 {
				ops = append(ops, zk.CreateOp(lockPath+"/_c_6266cbe9-453b-4a50-8718-b39f57879b6e-lock-", []byte("ann"), zk.EphemeralSequential))
			}
			if _, err := c.Multi(t.Context(), ops...); err != nil {
				t.Fatal(err)
			}
		}
		var reads atomic.Int64
		srv.Intercept(zkproto.OpGetData, func(string) zktest.Action { reads.Add(1); return zktest.Pass })
		k := newTestTaker(srv)
		k.plan.try = true
		_, err := k.take(nil)
		if term.Explain(err).Code != term.ExitBusy || !strings.Contains(err.Error(), "held by ann") {
			t.Errorf("%v; want that ann holds it", err)
		}
		if n := reads.Load(); n > lookedAt+100 {
			t.Errorf("%d reads for one message", n)
		}
		k = newTestTaker(srv)
		k.plan.bounded, k.plan.wait = true, 3*time.Second
		_, err = k.take(nil)
		if term.Explain(err).Code != term.ExitBusy || !strings.Contains(err.Error(), "held by ann") {
			t.Errorf("%v; want that ann holds it", err)
		}
		if got := saidBy(k); !strings.Contains(got, "held by ann") || !strings.Contains(got, "999 or more waiting before this one") {
			t.Errorf("said %q", got)
		}
	})
}
