package zkserver

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// requestMemory is the bound that Limits.Outstanding states for the requests of one connection.
const requestMemory = 3 << 20

// Requests that wait for the owner take bounded memory, whatever they contain. The test sends as
// much as the server reads while its owner is blocked.
func TestWaitingRequestsTakeBoundedMemory(t *testing.T) {
	const conns = 8
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // the second call frees what pools keep
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, size := range []int{400, 510, 4000, 20_000, zkproto.MaxFrame - 100} {
		acl := func(n int) []zkproto.ACL { return make([]zkproto.ACL, (n-40)/12) }
		paths := func(n, min int) []string { return make([]string, n/min) }
		for name, frame := range map[string]func(n int) []byte{
			"checks": func(n int) []byte {
				return frameOf(zkproto.OpMulti, &zkproto.MultiRequest{Ops: make17(n, zkproto.OpCheck)})
			},
			"creates": func(n int) []byte {
				return frameOf(zkproto.OpMulti, &zkproto.MultiRequest{Ops: []zkproto.MultiOp{{Op: zkproto.OpCreate, ACL: acl(n - 60)}}})
			},
			"create": func(n int) []byte { return frameOf(zkproto.OpCreate, &zkproto.CreateRequest{ACL: acl(n)}) },
			"setACL": func(n int) []byte { return frameOf(zkproto.OpSetACL, &zkproto.SetACLRequest{ACL: acl(n)}) },
			"reads": func(n int) []byte {
				return frameOf(zkproto.OpMultiRead, &zkproto.MultiReadRequest{Ops: make([]zkproto.MultiReadOp, (n-30)/14)})
			},
			"setWatches": func(n int) []byte {
				return frameOf(zkproto.OpSetWatches, &zkproto.SetWatchesRequest{Data: paths(n-40, 4)})
			},
			"path": func(n int) []byte {
				return frameOf(zkproto.OpGetData, &zkproto.ReadRequest{Path: strings.Repeat("x", n-20)})
			},
			"data": func(n int) []byte {
				return frameOf(zkproto.OpSetData, &zkproto.SetDataRequest{Data: make([]byte, n-30)})
			},
		} {
			t.Run(fmt.Sprintf("%s of %d bytes", name, size), func(t *testing.T) {
				inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
					f := frame(size)
					var cs []*rawClient
					for range conns {
						c := dial()
						c.connect(10*time.Second, nil)
						cs = append(cs, c)
					}
					synctest.Wait()
					held := make(chan struct{})
					s.queue.push(&request{kind: kindCall, call: func() { <-held }})
					synctest.Wait()
					before := heap()
					for _, c := range cs {
						go func() {
							for {
								if _, err := c.nc.Write(f); err != nil {
									return
								}
							}
						}()
					}
					synctest.Wait()
					each := (heap() - before) / conns
					t.Logf("%d KiB per connection", each>>10)
					if each > requestMemory {
						t.Errorf("%d bytes per connection; want at most %d", each, requestMemory)
					}
					s.stopNow(nil)
					for _, c := range cs {
						c.nc.Close()
					}
					close(held)
				})
			})
		}
	}
}

// make17 returns as many operations without a path as n bytes hold.
func make17(n int, op zkproto.Op) []zkproto.MultiOp {
	ops := make([]zkproto.MultiOp, (n-30)/17)
	for i := range ops {
		ops[i].Op = op
	}
	return ops
}
