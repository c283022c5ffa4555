package lockwatch

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"holdfast/zk"
	"holdfast/zkproto"
	"holdfast/zktest"
)

// The part of a large node's data that a Mirror keeps does not keep the rest in memory.
func TestAMirrorKeepsNoMoreThanAPart(t *testing.T) {
	m := &Mirror{Base: "/", Nodes: make(map[string]*Node)}
	m.put("/large", zk.Result{Data: make([]byte, 1<<20)}, true)
	if n := m.Nodes["/large"]; len(n.Data) != mirroredData || cap(n.Data) > 2*mirroredData {
		t.Errorf("%d bytes of %d; want %d", len(n.Data), cap(n.Data), mirroredData)
	}
}

// Changes that come together are read together, and one by one if the answer to one request for all does not come.
func TestAMirrorReadsChangesTogether(t *testing.T) {
	for name, broken := range map[string]bool{"together": false, "one by one": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				if broken {
					srv.Intercept(zkproto.OpMultiRead, func(string) zktest.Action { return zktest.Throttle })
				}
				var mu sync.Mutex
				requests := make(map[string]int) // guarded by mu
				cfg := srv.Config()
				cfg.Trace = &zk.Trace{RequestDone: func(_ context.Context, op, _ string, _ time.Duration, _ error) {
					mu.Lock()
					defer mu.Unlock()
					requests[op]++
				}}
				c, err := zk.Dial(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if _, _, err := srv.Client().Create(t.Context(), "/l", nil, zk.Persistent); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ready := make(chan bool, 8)
				m := &Mirror{Base: "/l", Hold: func(change func()) { mu.Lock(); defer mu.Unlock(); change() },
					Reset: func(bool) { ready <- true }, Changed: func(string, time.Time) {}, Lost: func(err error) {
						if ctx.Err() == nil {
							t.Errorf("lost: %v", err)
						}
					}}
				done := make(chan error)
				go func() { done <- m.Follow(ctx, c) }()
				<-ready
				mu.Lock()
				clear(requests)
				mu.Unlock()
				const n = 160
				for i := range n {
					if _, _, err := srv.Client().Create(t.Context(), fmt.Sprintf("/l/%d", i), []byte{byte(i)}, zk.Persistent); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(20 * time.Second) // before the mirror looks again
				mu.Lock()
				for i := range n {
					if node := m.Nodes[fmt.Sprintf("/l/%d", i)]; node == nil || !bytes.Equal(node.Data, []byte{byte(i)}) {
						t.Errorf("node %d: %+v", i, node)
					}
				}
				if sent := requests["multi read"] + requests["get"]; sent == 0 || !broken && sent > atOnce+n/16 {
					t.Errorf("%d changes took the requests %v", n, requests)
				}
				mu.Unlock()
				cancel()
				<-done
			})
		})
	}
}
