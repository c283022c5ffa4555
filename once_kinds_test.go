package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/once"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// A Once and a lock of another kind cannot have one name: the later of the two is refused.
func TestOnceAndLocksUnderOneNameAreRefused(t *testing.T) {
	for _, other := range uses() {
		t.Run(other.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				c := client(t, srv)
				h := lock(t, other.of(client(t, srv)))
				o := once.New(c, lockPath)
				r, err := o.Key("key").Do(t.Context(), func(context.Context) ([]byte, error) { return nil, nil })
				wantErr(t, err, holdfast.ErrKind)
				if r.Ran {
					t.Error("the function was called")
				}
				synctest.Wait()
				if left, err := c.Ephemerals(t.Context(), "/"); err != nil || len(left) > 0 {
					t.Errorf("left behind: %q, %v", left, err)
				}
				unlock(t, h)
				time.Sleep(10 * time.Minute) // the directories of the other kind go
				check := func(context.Context) ([]byte, error) {
					_, err := other.of(c).TryLock(t.Context())
					wantErr(t, err, holdfast.ErrKind)
					if foreign, err := holdfast.Foreign(t.Context(), c, lockPath); other.name != "node" && (err != nil || len(foreign) != 1 || foreign[0].Kind != "a Once") {
						t.Errorf("foreign nodes: %+v, %v", foreign, err)
					}
					if err != nil && !strings.Contains(err.Error(), "is of a Once") {
						t.Errorf("%v; want the kind", err)
					}
					return nil, nil
				}
				if _, err := o.Key("key").Do(t.Context(), check); err != nil {
					t.Fatal(err)
				}
				check(t.Context()) // its mark stays
				if err := o.Key("key").Forget(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				unlock(t, lock(t, other.of(c)))
			})
		})
	}
}

// A Once and another lock come together: one of them runs at each request of the other. Both may be refused,
// but both must not run.
func TestOnceAndLocksThatComeTogetherSeeEachOther(t *testing.T) {
	for _, other := range uses() {
		for at, reached := 1, true; reached; at++ {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				// With a record of the beginning, there is a request between the look and the run.
				o, c := once.New(client(t, srv), lockPath, once.AtMostOnce()), client(t, srv)
				var inside atomic.Bool
				var h *holdfast.Hold
				var lockErr error
				var cut *cut
				cut = newCut(srv, at, func(zkproto.Op) zktest.Action {
					if inside.CompareAndSwap(false, true) {
						cut.on.Store(false)
						h, lockErr = other.of(c).TryLock(t.Context())
						cut.on.Store(true)
					}
					return zktest.Pass
				})
				cut.on.Store(true)
				_, err := o.Key("key").Do(t.Context(), func(context.Context) ([]byte, error) {
					if h != nil && h.Context().Err() == nil {
						t.Errorf("%s at request %d: both run", other.name, at)
					}
					return nil, nil
				})
				cut.on.Store(false)
				if reached = cut.reached.Load(); reached && (err != nil && !errors.Is(err, holdfast.ErrKind) || lockErr != nil && !refused(lockErr)) {
					t.Errorf("%s at request %d: %v; %v", other.name, at, err, lockErr)
				}
				if h != nil {
					unlock(t, h)
				}
			})
		}
	}
}

// A cut counts the requests for nodes below /holdfast, and does something at one of them.
type cut struct {
	on      atomic.Bool
	n       atomic.Int32
	at      int32
	next    func() // is called at the request after that, if it is set
	reached atomic.Bool
}

// newCut makes strike answer the at-th request after on is set. It starts at 1.
func newCut(srv *zktest.Server, at int, strike func(op zkproto.Op) zktest.Action) *cut {
	c := &cut{at: int32(at)}
	for _, op := range []zkproto.Op{
		zkproto.OpCreate, zkproto.OpCreate2, zkproto.OpCreateContainer, zkproto.OpDelete, zkproto.OpExists, zkproto.OpGetData,
		zkproto.OpSetData, zkproto.OpGetChildren2, zkproto.OpMulti,
	} {
		srv.Intercept(op, func(path string) zktest.Action {
			if !c.on.Load() || !strings.HasPrefix(path, "/holdfast") {
				return zktest.Pass
			}
			n := c.n.Add(1)
			if n == c.at+1 && c.next != nil {
				c.next()
				return zktest.DropRequest
			}
			if n != c.at {
				return zktest.Pass
			}
			c.reached.Store(true)
			return strike(op)
		})
	}
	return c
}
