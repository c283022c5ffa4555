//go:build unix

package interop

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/interop/peers"
	"holdfast/zk"
)

var cuts = flag.Int("cuts", 50, "how often the lease test parts a follower from its leader")

// A follower is cut off from its leader and still answers our clients. The proof of their
// sessions must always run out before the ensemble removes their nodes. The same clients with
// LeasePing, which is what other libraries do, believe the follower. If none of them were too
// late, this test would show nothing.
func TestLeaseEndsBeforeTheEnsembleRemovesTheNode(t *testing.T) {
	const (
		timeout = 3 * time.Second
		each    = 3 // clients of each kind
	)
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{Servers: 3, Relays: true})
	closing(t, z, err)

	var margins, pinged []time.Duration
	for run := range *cuts {
		q, p := cutFollower(t, z, timeout, each)
		margins, pinged = append(margins, q...), append(pinged, p...)
		if t.Failed() {
			t.Fatalf("in run %d", run)
		}
	}
	slices.Sort(margins)
	slices.Sort(pinged)
	late := 0
	for _, m := range pinged {
		if m < 0 {
			late++
		}
	}
	measured(t, "%d cuts, timeout %v, tick %v: %d leases ended %v to %v before the node went, median %v; believing pings, %d of %d ended after it, the worst by %v",
		*cuts, timeout, z.Tick(), len(margins), margins[0], margins[len(margins)-1], margins[len(margins)/2], late, len(pinged), -pinged[0])
	if late == 0 {
		t.Error("no LeasePing client was too late: the test shows nothing")
	}
}

// cutFollower does it once. It returns how much each client's deadline preceded the removal of its node.
func cutFollower(t *testing.T, z *peers.ZooKeeper, timeout time.Duration, each int) (quorum, ping []time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), stepTime)
	defer cancel()
	leader, err := z.Leader(ctx)
	must(t, err)
	f := (leader + 1 + rand.IntN(2)) % 3
	observer := dialURL(t, "zk://"+z.Addrs()[leader])
	defer observer.Close()

	type subject struct {
		mode    zk.LeaseMode
		session *zk.Session
		removed *zk.Watch
	}
	var subjects []subject
	for i := range 2 * each {
		mode := []zk.LeaseMode{zk.LeaseAuto, zk.LeasePing}[i%2]
		c := dialURL(t, "zk://"+z.Addrs()[f], func(cfg *zk.Config) {
			cfg.SessionTimeout, cfg.TickTime, cfg.Lease = timeout, z.Tick(), mode
		})
		defer c.Close()
		s, err := c.Session(ctx)
		must(t, err)
		path, _, err := s.Create(ctx, "/held-", nil, zk.EphemeralSequential)
		must(t, err)
		_, err = s.Lease(ctx, path)
		must(t, err)
		must(t, catchUp(ctx, observer, path))
		_, exists, w, err := observer.ExistsW(ctx, path)
		must(t, err)
		if !exists {
			t.Fatalf("%s does not exist", path)
		}
		subjects = append(subjects, subject{mode, s, w})
	}
	// Some are cut right after their lease began, some later, each at another moment of its
	// heartbeat and the leader's.
	pause := time.NewTimer(rand.N(3 * time.Second))
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	z.Cut(f)

	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, sub := range subjects {
		wg.Go(func() {
			var removed time.Time
			select {
			case <-sub.removed.C:
				removed = time.Now()
			case <-ctx.Done():
				t.Error("the ensemble does not remove the node")
				return
			}
			deadline := sub.session.Deadline()
			margin := removed.Sub(deadline)
			mu.Lock()
			defer mu.Unlock()
			if sub.mode == zk.LeasePing {
				ping = append(ping, margin)
				return
			}
			quorum = append(quorum, margin)
			if margin < 0 {
				t.Errorf("the deadline was %v after the removal of the node", -margin)
			}
			if sub.session.Context().Err() == nil {
				t.Errorf("the session's context is still alive after its node was removed")
			}
		})
	}
	wg.Wait()
	z.Heal(f)
	must(t, z.AwaitReady(ctx, f))
	return quorum, ping
}

// An ensemble with the usual tick refuses a session too short to be proven, and names a
// sufficient timeout.
func TestLockOnAnEnsembleRefusesATimeoutThatIsTooShort(t *testing.T) {
	url := ensemble.get(t).URL()
	c := dialURL(t, url, func(cfg *zk.Config) { cfg.SessionTimeout, cfg.TickTime = 4*time.Second, 2*time.Second })
	s, err := c.Session(t.Context())
	must(t, err)
	path, _, err := s.Create(t.Context(), "/short-", nil, zk.EphemeralSequential)
	must(t, err)
	_, err = s.Lease(t.Context(), path)
	wants(t, "lease", err, zk.ErrTimeoutTooShort)
	if err != nil && !strings.Contains(err.Error(), "8.5s") {
		t.Errorf("%v does not name 8.5s as sufficient", err)
	}
}
