package holdfast_test

import (
	"slices"
	"sync"
	"testing"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// helix #1118, pravega #3985: who only looks gets it from a server that may be behind the
// others, so it has to catch up first. Who locks need not: its own create sees to that.
func TestListLetsTheServerCatchUpBeforeItReads(t *testing.T) {
	inBubble(t, func(t *testing.T, srv *zktest.Server) {
		c := client(t, srv)
		unlock(t, lock(t, holdfast.NewMutex(c, lockPath)))
		var mu sync.Mutex
		var order []zkproto.Op
		for _, op := range []zkproto.Op{zkproto.OpSync, zkproto.OpGetChildren2, zkproto.OpGetData, zkproto.OpExists} {
			srv.Intercept(op, func(string) zktest.Action {
				mu.Lock()
				defer mu.Unlock()
				order = append(order, op)
				return zktest.Pass
			})
		}
		if _, _, err := c.Create(t.Context(), lockPath+"/x-lock-", nil, zk.EphemeralSequential); err != nil {
			t.Fatal(err)
		}
		if _, err := holdfast.List(t.Context(), c, lockPath); err != nil {
			t.Fatal(err)
		}
		if want := []zkproto.Op{zkproto.OpSync, zkproto.OpGetChildren2, zkproto.OpGetData}; !slices.Equal(order, want) {
			t.Errorf("List sent %v; want %v", order, want)
		}
	})
}

// Apache's leader answers a sync at once, whatever it has still to apply. So a node whose
// creation was not answered is looked for behind a write, or it would be made twice, and
// the first would stay in the queue for as long as the session.
func TestLostCreateIsLookedForBehindAWrite(t *testing.T) {
	for _, fault := range []zktest.Action{zktest.DropRequest, zktest.DropReply} {
		inBubble(t, func(t *testing.T, srv *zktest.Server) {
			c := client(t, srv)
			unlock(t, lock(t, holdfast.NewMutex(c, lockPath)))
			var mu sync.Mutex
			var order []zkproto.Op
			for _, op := range []zkproto.Op{zkproto.OpSync, zkproto.OpMulti, zkproto.OpGetChildren2} {
				srv.Intercept(op, func(string) zktest.Action {
					mu.Lock()
					defer mu.Unlock()
					if len(order) > 0 || op != zkproto.OpGetChildren2 { // not the list of the join that is lost
						order = append(order, op)
					}
					return zktest.Pass
				})
			}
			srv.Intercept(zkproto.OpCreate2, func(string) zktest.Action {
				srv.Intercept(zkproto.OpCreate2, nil)
				return fault
			})
			h := lock(t, holdfast.NewMutex(c, lockPath))
			mu.Lock()
			if len(order) < 2 || order[0] != zkproto.OpMulti || order[1] != zkproto.OpGetChildren2 {
				t.Errorf("after a lost create: %v; want a transaction, then the list", order)
			}
			mu.Unlock()
			wantQueued(t, c, 1)
			unlock(t, h)
		})
	}
}
