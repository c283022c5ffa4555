//go:build unix

package interop

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"holdfast/interop/peers"
)

var (
	diffOps  = flag.Int("diffops", 100_000, "how many operations the differential test sends to each server")
	diffSeed = flag.Uint64("diffseed", 0, "seed of the differential test, as a run that failed has printed it; 0 is a random one")
)

// Several clients watch each other, reconnect and end their sessions. One stream of their
// operations runs on Apache ZooKeeper and on holdfast serve. Every answer and every
// notification must be the same.
func TestHoldfastServeAnswersAsApacheZooKeeper(t *testing.T) {
	z, h := startBoth(t)

	seed := *diffSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d; again with -diffseed %d", seed, seed)
	apache, ours := newDiffSide(t, z.Addrs()[0]), newDiffSide(t, h.Addr())
	stream := newDiffStream(seed)
	for number := 0; stream.sent < *diffOps; {
		// Both servers process the chunk at the same time; nothing in it depends on an answer.
		steps := make([]diffStep, 100)
		for i := range steps {
			steps[i] = stream.next()
		}
		apache, ours := runBoth(t, apache, ours, func(s *diffSide) ([]string, error) { return s.runAll(steps) })
		for i := range steps {
			if apache[i] != ours[i] {
				t.Fatalf("seed %d, step %d, %v\nApache ZooKeeper:\n%sholdfast serve:\n%sthe steps before, as both did them:\n%s",
					seed, number+i, steps[i], apache[i], ours[i], recent(steps[:i], ours))
			}
		}
		number += len(steps)
	}
	ours.seen.check(t, *diffOps)
	for name, side := range map[string]*diffSide{"Apache ZooKeeper": apache, "holdfast serve": ours} {
		for _, path := range side.reordered {
			t.Errorf("seed %d: %s: two reads of %s, which did not change between them, list its children in different orders", seed, name, path)
		}
		t.Logf("%s: %d lists were read again while they were the same", name, side.repeated)
	}
	if ours.repeated == 0 {
		t.Errorf("seed %d: no list was read twice, so nothing is known of its order", seed)
	}
	walked, ourWalk := runBoth(t, apache, ours, func(s *diffSide) ([]string, error) { return s.walk("/") })
	if len(walked) < 10 {
		t.Errorf("only %d nodes are left to compare", len(walked))
	}
	for i := range max(len(walked), len(ourWalk)) {
		if i >= len(walked) || i >= len(ourWalk) || walked[i] != ourWalk[i] {
			t.Fatalf("seed %d: the trees differ in the end\nApache ZooKeeper: %s\nholdfast serve:   %s",
				seed, strings.Join(walked[min(i, len(walked)):], "\n"), strings.Join(ourWalk[min(i, len(ourWalk)):], "\n"))
		}
	}
	t.Logf("answers: %v", ours.seen)
	measured(t, "%d operations (%d kinds of answers) and %d nodes alike on Apache ZooKeeper and on holdfast serve, seed %d",
		stream.sent, ours.seen.kinds(), len(walked), seed)
}

func startBoth(t *testing.T) (*peers.ZooKeeper, *peers.Holdfast) {
	t.Helper()
	longest := fmt.Sprintf("maxSessionTimeout=%d", diffTimeout.Milliseconds())
	z, err := peers.StartZooKeeper(t.Context(), t.TempDir(), peers.ZooKeeperConfig{TickTime: diffTick, Settings: []string{longest}, Flags: []string{
		// Otherwise it logs every invalid request.
		"-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.CreateMode=off",
		"-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server=off",
	}})
	closing(t, z, err)
	h, err := peers.StartHoldfast(t.Context(), holdfastBin(t), t.TempDir(), "--tick", diffTick.String())
	closing(t, h, err)
	return z, h
}

func runBoth(t *testing.T, apache, ours *diffSide, f func(*diffSide) ([]string, error)) (a, o []string) {
	t.Helper()
	var apacheErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		a, apacheErr = f(apache)
	}()
	o, err := f(ours)
	<-done
	if apacheErr != nil || err != nil {
		t.Fatalf("Apache ZooKeeper: %v\nholdfast serve: %v", apacheErr, err)
	}
	return a, o
}

// recent returns the steps before a difference, in a readable amount.
func recent(steps []diffStep, outcomes []string) string {
	var b strings.Builder
	for i := max(0, len(steps)-20); i < len(steps); i++ {
		fmt.Fprintf(&b, "%v\n%s", steps[i], outcomes[i])
	}
	return b.String()
}
