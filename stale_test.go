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
