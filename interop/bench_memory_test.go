//go:build linux

package interop

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"holdfast"
)

// waitersWeighed is how many wait for a lock while memory is measured.
func waitersWeighed() int {
	if *quick {
		return 500
	}
	return 2000
}

const (
	clientBytes = "client-B" // heap and stacks; a goroutine that waits has one of at least 2 KiB
	heapBytes   = "heap-B"   // without the stacks of the goroutines that wait
	serverBytes = "server-B" // live objects on its heap
)

// The two shapes of waiting: all behind one another, and each behind a holder of its own.
const inOneQueue, lockEach = ", one queue", ", a lock each"

func memoryGoals() []goal {
	var goals []goal
	for _, shape := range []string{inOneQueue, lockEach} {
		goals = append(goals,
			goal{unit: clientBytes, who: oursOnOurs + shape, limit: 2048}, goal{unit: serverBytes, who: oursOnOurs + shape, limit: 1024},
			goal{unit: heapBytes, who: oursOnOurs + shape, limit: 2048},
			goal{unit: serverBytes, who: oursOnOurs + shape, than: oursOnApacheIn + shape, atMost: 1},
			goal{unit: clientBytes, who: oursOnOurs + shape, than: goZooKeeper + shape, atMost: 1})
	}
	return goals
}

func memorySides(tb testing.TB) []side {
	apache, ours := benchApache.get(tb), benchHoldfast.get(tb)
	apacheHeap := func(ctx context.Context) (int64, error) { return liveOnJVM(ctx, apache.Pid(0)) }
	oursHeap := func(ctx context.Context) (int64, error) { return liveOnHoldfast(ctx, ours.AdminURL()) }
	var sides []side
	for _, shape := range []string{inOneQueue, lockEach} {
		each := shape == lockEach
		sides = append(sides,
			side{oursOnOurs + shape, weigh(ours.URL(), ours.Pid(), openOurs(ours.URL()), oursHeap, each)},
			side{oursOnApacheIn + shape, weigh(apache.URL(), apache.Pid(0), openOurs(apache.URL()), apacheHeap, each)},
			side{goZooKeeper + shape, weigh(apache.URL(), apache.Pid(0), openGoZooKeeper(apache.Addrs()[0]), apacheHeap, each)})
	}
	return sides
}

// weigh measures what so many waiters add to this process and to the server. The locks
// that they wait for are there before, held by a session of another client.
func weigh(url string, pid int, open func(context.Context) (session, error), server func(context.Context) (int64, error), each bool) func(context.Context) (figures, error) {
	return func(ctx context.Context) (_ figures, err error) {
		n, locks := waitersWeighed(), 1
		if each {
			locks = n
		}
		root := fmt.Sprintf("weighed-%d", crowdNumber.Add(1))
		name := func(i int) string { return fmt.Sprintf("%s/%d", root, i%locks) }
		holder, err := dialBench(ctx, url)
		if err != nil {
			return nil, err
		}
		defer holder.Close()
		if err := inBatches(locks, func(i int) error {
			// Holders of a value of their own write nothing later. Others write once, after a second, and what
			// that leaves in this process would be counted as the waiters'.
			_, err := holdfast.NewMutex(holder, "/bench/"+name(i), holdfast.WithValue([]byte("holder"))).Lock(ctx)
			return err
		}); err != nil {
			return nil, err
		}
		waiting, err := open(ctx)
		if err != nil {
			return nil, err
		}
		var wg sync.WaitGroup
		defer func() {
			// All have their turn: go-zookeeper 1.0.4 sometimes never ends if it is closed while
			// thousands wait (Conn.flushRequests sends an error to a channel that has one), and
			// the stacks that are left would be used again in the next sample.
			holder.Close()
			wg.Wait()
			waiting.close()
		}()
		grabs := make([]grab, n)
		for i := range grabs {
			if grabs[i], err = waiting.lock(name(i), 0); err != nil {
				return nil, err
			}
		}
		serverBefore, err := server(ctx)
		if err != nil {
			return nil, err
		}
		before, heapBefore := memoryInUse(), heapInUse()
		for _, take := range grabs {
			wg.Go(func() {
				if release, err := take(ctx); err == nil {
					release()
				}
			})
		}
		// The nodes of the locks, their holders' and the waiters'.
		if err := awaitCrowd(ctx, holder, pid, "/bench/"+root, 2*locks+n); err != nil {
			return nil, err
		}
		used, heap := memoryInUse()-before, heapInUse()-heapBefore
		serverAfter, err := server(ctx)
		if err != nil {
			return nil, err
		}
		return figures{
			clientBytes: float64(used) / float64(n),
			heapBytes:   float64(heap) / float64(n),
			serverBytes: float64(serverAfter-serverBefore) / float64(n),
		}, nil
	}
}

// heapInUse is for who has just collected the garbage.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// inBatches does n things, 64 at a time.
func inBatches(n int, do func(i int) error) error {
	const batch = 64
	return together(batch, func(b int) error {
		for i := b; i < n; i += batch {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	})
}

// liveOnJVM is what lives on a JVM's heap: the histogram is taken after a full collection.
func liveOnJVM(ctx context.Context, pid int) (int64, error) {
	out, err := exec.CommandContext(ctx, "jcmd", strconv.Itoa(pid), "GC.class_histogram").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("jcmd: %w\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	total := strings.Fields(lines[len(lines)-1]) // Total 123 4567
	if len(total) != 3 || total[0] != "Total" {
		return 0, fmt.Errorf("jcmd ends with %q", lines[len(lines)-1])
	}
	return strconv.ParseInt(total[2], 10, 64)
}

// liveOnHoldfast is what lives on the heap of `holdfast serve`, after a collection.
func liveOnHoldfast(ctx context.Context, admin string) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/debug/pprof/heap?gc=1&debug=1", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	_, after, ok := strings.Cut(string(text), "# HeapAlloc = ")
	value, _, _ := strings.Cut(after, "\n")
	if !ok {
		return 0, fmt.Errorf("%s: %s tells of no HeapAlloc", admin, answer.Status)
	}
	return strconv.ParseInt(value, 10, 64)
}
