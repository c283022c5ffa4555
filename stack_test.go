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

// A goroutine that is blocked in Lock or Do uses little stack, so the collector can shrink it.
// The stack is most of a waiter's cost. How much is little depends on the compiler and the race
// detector. So the test compares waiters with goroutines in a select below a frame of known size.
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
				t.Logf("a waiter has a stack of %d bytes, a goroutine below a small frame one of %d", ours, small)
				if ours > small+1024 {
					t.Error("a waiter's stack is over 1 KiB larger than that of a goroutine below a small frame")
				}
			})
		})
	}
}

// alone reports whether t runs in its own process, without stacks that other tests left to be
// reused. If not, it runs the test in one.
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

// stacks returns the size of all stacks after the collector has shrunk them.
func stacks() int64 {
	time.Sleep(time.Second)
	synctest.Wait()
	for range 4 { // each collection halves a stack
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
