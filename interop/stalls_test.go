//go:build unix

package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
	"holdfast/zk"
)

var stalls = flag.Int("stalls", 10, "how many directions of quorum links the stall test holds up, one after the other")

// A stallSetting has the parameters of an ensemble and its clients. The sync limit lets a
// follower continue under a leader that has been silent for nearly a session timeout.
type stallSetting struct {
	timeout, tick time.Duration
	syncLimit     int
	held          time.Duration // in the test of one scenario
}

var stallSettings = []stallSetting{
	{timeout: 6 * time.Second, tick: 500 * time.Millisecond, syncLimit: 20, held: 5200 * time.Millisecond},
	{timeout: 15 * time.Second, tick: 2 * time.Second, syncLimit: 5, held: 8 * time.Second},
}

func (s stallSetting) String() string { return fmt.Sprintf("%v at tick %v", s.timeout, s.tick) }

func (s stallSetting) start(t *testing.T) *peers.ZooKeeper {
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{
		Servers: 3, Relays: true, TickTime: s.tick, Settings: []string{fmt.Sprint("syncLimit=", s.syncLimit)},
	})
	return closing(t, z, err)
}

// client returns a client of some servers, which it tries in random order.
func (s stallSetting) client(t *testing.T, servers ...string) *zk.Client {
	return dialURL(t, "zk://"+servers[0], func(cfg *zk.Config) {
		cfg.SessionTimeout, cfg.TickTime, cfg.Servers = s.timeout, s.tick, servers
	})
}

// An idle session behind a follower locks while the leader's messages do not reach the follower.
// Then they do, and the follower's messages no longer reach the leader, which has not heard the
// session for a long time. The answer to the lock's write has arrived; it must not count as a
// proof.
func TestLockBehindALinkThatWasHeldUp(t *testing.T) {
	for _, s := range stallSettings {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			z := s.start(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			leader, err := z.AwaitLeader(ctx)
			must(t, err)
			follower, other := (leader+1)%3, (leader+2)%3
			const path = "/held-up"
			holder, next := s.client(t, z.Addrs()[follower]), s.client(t, z.Addrs()[other])
			_, _, err = next.Create(ctx, path, nil, zk.Persistent) // no server removes it
			must(t, err)
			pause(ctx, s.timeout) // the session idles
			// While the link is held up, the leader does not hear the session, but must not
			// expire it. So it hears it now: a follower reports the sessions it has heard twice
			// per tick.
			_, _, err = holder.Exists(ctx, path)
			must(t, err)
			pause(ctx, s.tick)

			z.Hold(leader, follower, true)
			defer z.Hold(leader, follower, false)
			defer z.Hold(follower, leader, false)
			pause(ctx, s.held)
			var mu sync.Mutex
			var held *holdfast.Hold
			locked := make(chan error, 1)
			began := time.Now()
			go func() {
				h, err := holdfast.NewMutex(holder, path).Lock(ctx)
				mu.Lock()
				held = h
				mu.Unlock()
				locked <- err
			}()
			awaitQueue(ctx, t, next, path, 1)
			granted := make(chan time.Time, 1)
			go func() {
				h, err := holdfast.NewMutex(next, path).Lock(ctx)
				at := time.Now()
				if err != nil {
					t.Error(err)
					close(granted)
					return
				}
				mu.Lock()
				if held != nil && held.Context().Err() == nil {
					t.Errorf("%v after its Lock began, the first holds the lock beside the next, and believes in it for another %v", at.Sub(began), held.Deadline().Sub(at))
				}
				mu.Unlock()
				granted <- at
				must(t, h.Unlock())
			}()
			pause(ctx, time.Until(began.Add(150*time.Millisecond)))
			z.Hold(leader, follower, false)
			z.Hold(follower, leader, true)
			at, ok := <-granted
			if !ok {
				return
			}
			z.Hold(follower, leader, false)
			if err := <-locked; err != nil {
				t.Fatal(err)
			}
			measured(t, "the next held the lock %v after the first began to lock", at.Sub(began).Round(time.Millisecond))
			held.Unlock() // the hold may be over
		})
	}
}

// A claimRegister records which clients believe that they hold a lock.
type claimRegister struct {
	name string

	mu       sync.Mutex // guards the fields below
	active   []*stallClaim
	grants   int
	losses   int
	overlaps int
	margins  []time.Duration // from the end of a Context by loss to the next grant
	lost     time.Time       // when the latest Context ended by loss
}

type stallClaim struct {
	hold *holdfast.Hold
	who  string
}

// claim records a Lock that has just returned.
func (r *claimRegister) claim(t *testing.T, h *holdfast.Hold, who string) *stallClaim {
	now := time.Now()
	c := &stallClaim{h, who}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, o := range r.active {
		if o.hold.Context().Err() == nil {
			r.overlaps++
			t.Errorf("%s: %s acquired the lock with token %d, and %s with token %d believes in it for another %v",
				r.name, who, h.Token(), o.who, o.hold.Token(), o.hold.Deadline().Sub(now))
		}
	}
	r.grants++
	if !r.lost.IsZero() {
		r.margins, r.lost = append(r.margins, now.Sub(r.lost)), time.Time{}
	}
	r.active = append(r.active, c)
	context.AfterFunc(h.Context(), func() {
		if !errors.Is(context.Cause(h.Context()), holdfast.ErrLost) {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.losses++
		r.lost = time.Now()
	})
	return c
}

// done is called before the Unlock.
func (r *claimRegister) done(c *stallClaim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = slices.DeleteFunc(r.active, func(o *stallClaim) bool { return o == c })
}

// contend locks and unlocks until ctx ends. It idles for up to most in between, holds for up to
// half of a session timeout, and sometimes for as long as it can.
func (s stallSetting) contend(ctx context.Context, t *testing.T, r *claimRegister, c *zk.Client, who string, idle time.Duration) {
	m := holdfast.NewMutex(c, "/stalls/"+r.name)
	for ctx.Err() == nil {
		pause(ctx, rand.N(idle))
		h, err := m.Lock(ctx)
		switch {
		case ctx.Err() != nil && err != nil:
			return
		case err != nil:
			t.Errorf("%s: %v", who, err)
			return
		}
		claim := r.claim(t, h, who)
		keep := rand.N(s.timeout / 2)
		if rand.IntN(4) == 0 {
			keep = rand.N(3 * s.timeout)
		}
		timer := time.NewTimer(keep)
		select {
		case <-timer.C:
		case <-h.Context().Done():
		case <-ctx.Done():
		}
		timer.Stop()
		r.done(claim)
		h.Unlock() // ErrLost if it was lost
	}
}

// A stallJob is the command of `holdfast run`. It takes a file lock, which everything that it
// starts keeps, and reports if another job has it.
const stallJob = `exec 9>>"$1"; flock -n 9 || echo >>"$2"; echo >>"$3"; sleep "$4"; :`

// command runs jobs under a lock until ctx ends. It returns how many overlapped, and how many
// there were.
func (s stallSetting) command(ctx context.Context, t *testing.T, z *peers.ZooKeeper, name string) (overlaps, jobs int) {
	dir := t.TempDir()
	claim, overlap, grants := filepath.Join(dir, "claim"), filepath.Join(dir, "overlap"), filepath.Join(dir, "grants")
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			for ctx.Err() == nil {
				keep := fmt.Sprint(rand.N(s.timeout).Seconds())
				cmd := exec.CommandContext(ctx, holdfastBin(t), "run", "--server", z.URL()+"?tick="+s.tick.String(),
					"--session-timeout", s.timeout.String(), "--term-before", "500ms", "--wait", "1h", name, "--", "sh", "-c", stallJob, "job", claim, overlap, grants, keep)
				cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "HOLDFAST_") })
				cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
				cmd.WaitDelay = stepTime
				out, err := cmd.CombinedOutput()
				if err != nil && ctx.Err() == nil {
					t.Logf("holdfast run %s: %v\n%s", name, err, out)
					pause(ctx, time.Second) // it could not reach a server
				}
			}
		})
	}
	both.Wait()
	lines := func(file string) int {
		b, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		return len(b)
	}
	return lines(overlap), lines(grants)
}

// torment holds up one direction of one quorum link after the other, independently, until it has
// taken all that are left.
func (s stallSetting) torment(ctx context.Context, t *testing.T, z *peers.ZooKeeper, take func() bool) {
	hold := func(i, j int, most time.Duration) {
		if !take() {
			return
		}
		z.Hold(i, j, true)
		pause(ctx, s.timeout/10+rand.N(most))
		z.Hold(i, j, false)
	}
	for ctx.Err() == nil {
		leader, err := z.Leader(ctx)
		if err != nil { // there is no leader at the moment
			pause(ctx, s.tick)
			continue
		}
		from, to := leader, (leader+1+rand.IntN(2))%3
		if rand.IntN(2) == 0 {
			from, to = to, from
		}
		if !take() {
			return
		}
		z.Hold(from, to, true)
		pause(ctx, s.timeout/10+rand.N(s.timeout*11/10))
		if rand.IntN(2) == 0 { // the other direction takes over at once
			z.Hold(from, to, false)
			hold(to, from, s.timeout)
		} else {
			hold(to, from, s.timeout/2) // both directions for a while
			z.Hold(from, to, false)
		}
		pause(ctx, rand.N(s.timeout/2))
	}
}

// No two clients hold a lock at once, whichever direction of whichever link between the servers
// is held up, and for however long. Some clients idle before they lock, some lock again and
// again, some wait in line; some use one server only. `holdfast run` does the same with a job of
// several processes.
//
//	go test -run Stalls -stalls 200 -timeout 2h
func TestStallsOfQuorumLinksLetNobodyIn(t *testing.T) {
	settings := stallSettings
	if *stalls < 50 {
		settings = settings[:1]
	}
	for _, s := range settings {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			z := s.start(t)
			begin, cancel := context.WithTimeout(t.Context(), stepTime)
			defer cancel()
			leader, err := z.AwaitLeader(begin)
			must(t, err)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()

			var all sync.WaitGroup
			var registers []*claimRegister
			addrs := z.Addrs()
			for i := range 6 {
				r := &claimRegister{name: fmt.Sprint(i)}
				registers = append(registers, r)
				tied := addrs[(leader+1+i%2)%3]
				idler, busy, anywhere := s.client(t, tied), s.client(t, tied), s.client(t, addrs...)
				all.Go(func() { s.contend(ctx, t, r, idler, "the idle one", 3*s.timeout) })
				all.Go(func() { s.contend(ctx, t, r, anywhere, "the one that goes anywhere", s.timeout) })
				if i%2 == 0 {
					all.Go(func() { s.contend(ctx, t, r, busy, "the busy one", s.timeout/10) })
				}
			}
			var overlaps, jobs atomic.Int64
			for i := range 2 {
				all.Go(func() {
					o, n := s.command(ctx, t, z, fmt.Sprint("stall-", i))
					overlaps.Add(int64(o))
					jobs.Add(int64(n))
				})
			}

			left, taken := *stalls/len(settings), 0
			var mu sync.Mutex
			take := func() bool {
				mu.Lock()
				defer mu.Unlock()
				if taken == left || ctx.Err() != nil {
					return false
				}
				taken++
				return true
			}
			pause(ctx, s.timeout)
			s.torment(ctx, t, z, take)
			pause(ctx, 2*s.timeout)
			stop()
			all.Wait()

			grants, losses, beside := 0, 0, 0
			var margins []time.Duration
			for _, r := range registers {
				grants, losses, beside, margins = grants+r.grants, losses+r.losses, beside+r.overlaps, append(margins, r.margins...)
			}
			smallest := "none"
			if len(margins) > 0 {
				smallest = slices.Min(margins).Round(time.Millisecond).String()
			}
			if n := overlaps.Load(); n > 0 {
				t.Errorf("%d jobs of holdfast run overlapped another", n)
			}
			measured(t, "%d directions held up: %d locks, %d lost, %d overlaps, smallest margin from a loss to the next lock %s; %d jobs of holdfast run, %d overlaps",
				taken, grants, losses, beside, smallest, jobs.Load(), overlaps.Load())
			if grants < taken || int(jobs.Load()) < taken/4 {
				t.Errorf("%d locks and %d jobs: the test shows nothing", grants, jobs.Load())
			}
			if taken >= 50 && losses == 0 {
				t.Error("no client lost a lock: the stalls had no effect")
			}
		})
	}
}
