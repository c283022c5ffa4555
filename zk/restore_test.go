package zk_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// A server that throttles does not restore the watches, but its answer has a new zxid. The next connection
// must still ask for the events since the watches were whole.
func TestEventsAreNotLostWhenWatchesAreRestoredLate(t *testing.T) {
	for _, refusals := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			srv := zktest.NewServer()
			defer srv.Close()
			c, other := srv.Client(), srv.Client()
			if _, _, err := c.Create(t.Context(), "/a", nil, zk.Persistent); err != nil {
				t.Fatal(err)
			}
			_, _, w, err := c.ChildrenW(t.Context(), "/a")
			if err != nil {
				t.Fatal(err)
			}
			refused := 0
			srv.Intercept(zkproto.OpSetWatches, func(string) zktest.Action {
				if refused++; refused > refusals {
					return zktest.Pass
				}
				if refused == 1 {
					_, _, err := other.Create(t.Context(), "/a/b", nil, zk.Persistent)
					for errors.Is(err, zk.ErrConnectionLoss) { // its connection was cut after c's
						_, _, err = other.Create(t.Context(), "/a/b", nil, zk.Persistent)
					}
					if err != nil && !errors.Is(err, zk.ErrNodeExists) {
						t.Error(err)
					}
				}
				return zktest.Throttle
			})
			srv.CloseClientConnections()
			select {
			case ev := <-w.C:
				if ev.Type != zk.EventNodeChildrenChanged {
					t.Errorf("got %+v", ev)
				}
			case <-time.After(time.Hour): // pings go on for ever
				t.Errorf("the event was lost after %d refusals", refused)
			}
		})
	}
}
