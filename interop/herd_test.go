//go:build unix

package interop

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zk"
)

var (
	herdWaiters = flag.String("herd-waiters", "10", "numbers of waiters with which the recipes are compared, as 10,100,1000")
	herdDoc     = flag.String("herd-doc", "", "directory whose herd.md gets the table of that comparison, and its plot")
)

// herdReleases is the number of measured releases per queue. In half of them, more clients wait
// than the number that the queue is named after, and in the other half fewer.
const herdReleases = 9

// herdSilence is how long there must be no traffic before a release counts as over. No step
// that a release triggers waits for a clock.
const herdSilence = 150 * time.Millisecond

// herdServer is an Apache ZooKeeper with enough memory to send a thousand clients a thousand
// names each, and enough time to keep a thousand idle sessions of kazoo's.
var herdServer = sharedPeer[*peers.ZooKeeper]{start: func(ctx context.Context, dir string) (*peers.ZooKeeper, error) {
	return peers.StartZooKeeper(ctx, dir, peers.ZooKeeperConfig{TickTime: herdTimeout / 20, Flags: []string{"-Xmx1000m"}})
}}

// measureHerd queues this many waiters behind a holder. It returns the cost of each release, as
// the relay between them and the server sees it.
func measureHerd(t *testing.T, r recipe, waiters int) []traffic {
	t.Helper()
	need(t, r.need())
	server := herdServer.get(t).Addrs()[0]
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	admin := dialURL(t, "zk://"+server)
	relay := newCountingRelay(t, server)
	path := fmt.Sprintf("/herd-%d", time.Now().UnixNano())
	sessions := 1 + r.skip + waiters + herdReleases/2
	h := r.start(ctx, t, relay, path, sessions)
	must(t, h.held(ctx))
	must(t, awaitChildren(ctx, admin, path, sessions))
	for range r.skip {
		must(t, h.release())
		must(t, h.held(ctx))
	}
	_, err := relay.settle(ctx, herdSilence) // the last of them know which node to watch
	must(t, err)
	releases := make([]traffic, herdReleases)
	for i := range releases {
		must(t, h.release())
		must(t, h.held(ctx))
		releases[i], err = relay.settle(ctx, herdSilence)
		must(t, err)
		t.Logf("%d waiters, release %d of %d: %+v", waiters, i+1, herdReleases, releases[i])
	}
	return releases
}

// awaitChildren returns when the node has at least this many children.
func awaitChildren(ctx context.Context, c *zk.Client, path string, want int) error {
	for {
		stat, _, err := c.Exists(ctx, path)
		switch {
		case err != nil:
			return fmt.Errorf("children of %s: %w", path, err)
		case int(stat.NumChildren) >= want: // it may not exist yet, and want may be 0
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond): // a watch would make the server send all names again and again
		case <-ctx.Done():
			return fmt.Errorf("%d of %d have queued: %w", stat.NumChildren, want, context.Cause(ctx))
		}
	}
}

// typical returns the median of f over the releases.
func typical(releases []traffic, f func(traffic) int) int {
	values := make([]int, len(releases))
	for i, t := range releases {
		values[i] = f(t)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func bothWays(t traffic) int { return t.toServer + t.toClients }

// A release of our Mutex wakes two clients at most. With more waiters than queue.LongFrom, its traffic does not grow
// with their number.
func TestReleaseOfAMutexWakesNoHerd(t *testing.T) {
	few, many, most := measureHerd(t, mutex, 100), measureHerd(t, mutex, 600), measureHerd(t, mutex, 1000)
	for i, r := range slices.Concat(few, many, most) {
		if r.woken > 2 {
			t.Errorf("release %d of %d wakes %d clients; want 2 at most", i%herdReleases+1, herdReleases, r.woken)
		}
		if r.woken < 1 {
			t.Errorf("release %d of %d wakes nobody: the relay does not see who acquires the lock", i%herdReleases+1, herdReleases)
		}
	}
	of100, of600, of1000 := typical(few, bothWays), typical(many, bothWays), typical(most, bothWays)
	measured(t, "bytes per release: %d with 100 waiters, %d with 600, %d with 1,000; the last of these: %+v", of100, of600, of1000, most[len(most)-1])
	if of1000*10 > of600*11 {
		t.Errorf("a release with 1,000 waiters sends %d bytes, with 600 waiters %d; want at most 1.1 times as many", of1000, of600)
	}
}

// The recipes side by side. With few waiters the test shows that the relay counts right, since
// each recipe's traffic is known. The comparison is
//
//	go test -run HerdCompared -herd-waiters 10,100,1000 -herd-doc ../docs/explanation -timeout 30m
func TestHerdCompared(t *testing.T) {
	var numbers []int
	for text := range strings.SplitSeq(*herdWaiters, ",") {
		n, err := strconv.Atoi(text)
		must(t, err)
		numbers = append(numbers, n)
	}
	rows := make([][][]traffic, len(herdRecipes))
	for i, r := range herdRecipes {
		for _, n := range numbers {
			t.Run(fmt.Sprintf("%s/%d", r.line, n), func(t *testing.T) {
				releases := measureHerd(t, r, n)
				rows[i] = append(rows[i], releases)
				for j, got := range releases {
					low, high := 1, 2
					if i == 0 { // all waiters
						low = n + herdReleases/2 - j
						high = low
					}
					if got.woken < low || got.woken > high {
						t.Errorf("release %d of %d woke %d clients; want %d to %d", j+1, herdReleases, got.woken, low, high)
					}
				}
			})
		}
	}
	if *herdDoc == "" || t.Failed() {
		return
	}
	must(t, writeHerd(*herdDoc, numbers, rows))
}
