package holdfast_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast"
	"holdfast/zk"
	"holdfast/zktest"
)

// A goroutine that is blocked in Lock, or in Do, has little on its stack, so that the collector can
// take most of that back: what a waiting lock costs is its stack above all. How much is
// little depends on the compiler, and on the race detector, so waiters are compared with
// goroutines that wait in a select with a frame of a certain size above it.
func TestWaitersStandOnSmallStacks(t *testing.T) {
	tests := []struct {
		name string
		of   func(*zk.Client) holdfast.Locker
	}{
		{"for the second nearest", mutexAt},
		{"for the nearest", readAt},
	}
	const n = 200
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if !alone(t) {
				return
			}
			inBubble(t, func(t *testing.T, srv *zktest.Server) {
				lock(t, mutexAt(client(t, srv)))
				l, ctx := tt.of(client(t, srv)), t.Context()
				var wg sync.WaitGroup
				defer wg.Wait()
				stop := make(chan struct{})
				defer close(stop)
				before := stacks()
				for range n {
					wg.Go(func() {
						growStack()
						waitUnderAFrame(stop, ctx.Done())
					})
				}
				between := stacks()
				for range n {
					go func() {
						growStack()
						holdfast.Do(ctx, l, func(context.Context) error { return nil })
					}()
				}
				ours, small := (stacks()-between)/n, (between-before)/n
				t.Logf("a waiter has a stack of %d bytes, one that has a small frame one of %d", ours, small)
				if ours > small+1024 {
					t.Error("that is too much")
				}
			})
		})
	}
}

// alone reports whether t runs in a process of its own, where no stacks are used again that
// other tests have left. If not, it does so there.
func alone(t *testing.T) bool {
	const variable = "HOLDFAST_TEST_ALONE"
	if os.Getenv(variable) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
	cmd.Env = append(os.Environ(), variable+"=1")
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("alone: %v", err)
	}
	return false
}

// stacks is what all stacks take when the collector has taken back what it can.
func stacks() int64 {
	time.Sleep(time.Second)
	synctest.Wait()
	for range 4 { // each collection takes half of a stack
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.StackInuse)
}

// growStack sees to it that there is a stack to take back: one of 16 KiB.
//
//go:noinline
func growStack() {
	var deep [9 << 10]byte
	keep(deep[:])
}

// waitUnderAFrame has as much on its stack as a waiter may have.
//
//go:noinline
func waitUnderAFrame(a, b <-chan struct{}) {
	var frame [512]byte
	select {
	case <-a:
	case <-b:
	}
	keep(frame[:])
}

//go:noinline
func keep([]byte) {}
