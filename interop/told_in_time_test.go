//go:build unix

package interop

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"holdfast"
	"holdfast/interop/peers"
)

var (
	toldRuns      = flag.Int("told-runs", 0, "how often the told-in-time test makes each fault; 0 is a few times")
	toldEnsembles = flag.Int("told-ensembles", 1, "on how many ensembles at once (-parallel must allow it)")
)

// A toldSetting has the parameters of an ensemble and its clients.
type toldSetting struct {
	timeout, tick time.Duration
	rate          float64 // rate of the servers' clocks; 0: ours
	hopeless      bool    // holders may be told too late; the test only counts them
}

func (s toldSetting) String() string { return fmt.Sprintf("%v at tick %v", s.timeout, s.tick) }

// A toldFault is a fault that may end the session of a holder.
type toldFault struct {
	name    string
	few     int  // runs, without -told-runs
	holders int  // per run
	each    bool // every holder has its own fault: as many faults as holders
	// meet makes the fault and reverts it; it calls settle in between or after.
	meet func(r *toldRun, holders int, result *toldResult)
}

var toldFaults = []toldFault{
	{name: "follower cut off", few: 2, holders: 4, meet: meetFollowerCut},
	{name: "leader killed", few: 2, holders: 4, meet: meetLeaderKill},
	{name: "leader stopped", few: 1, holders: 4, meet: meetLeaderStop},
	{name: "client unheard", few: 4, holders: 4, each: true, meet: func(r *toldRun, n int, result *toldResult) { meetClientCut(r, n, true, result) }},
	{name: "client deaf", few: 4, holders: 4, each: true, meet: func(r *toldRun, n int, result *toldResult) { meetClientCut(r, n, false, result) }},
}

// A holder is told that it has lost its lock before another client can acquire it, whatever
// separates the holder from the deciding servers.
func TestToldInTime(t *testing.T) {
	for _, s := range []toldSetting{
		{timeout: 10 * time.Second, tick: 2 * time.Second}, // the usual tick
		{timeout: 6 * time.Second, tick: time.Second},
	} {
		t.Run(s.timeout.String(), func(t *testing.T) {
			t.Parallel()
			ensembles := startTold(t, s)
			for _, f := range toldFaults {
				f.onAll(t, s, ensembles)
			}
		})
	}
}

// onAll makes the fault as often as the flags say on all ensembles together. It prints and
// returns the result.
func (f *toldFault) onAll(t *testing.T, s toldSetting, ensembles []*peers.ZooKeeper) *toldResult {
	result := &toldResult{}
	ok := t.Run(f.name, func(t *testing.T) {
		runs := *toldRuns
		if runs == 0 {
			runs = f.few
		}
		var mu sync.Mutex
		left := runs
		take := func(most int) int {
			mu.Lock()
			defer mu.Unlock()
			n := min(left, most)
			left -= n
			return n
		}
		for k, z := range ensembles {
			t.Run(fmt.Sprint(k), func(t *testing.T) {
				t.Parallel()
				f.repeat(t, z, s, take, result)
			})
		}
	})
	if ok && result.cuts > 0 {
		measured(t, "%s: %v: %v", f.name, s, result)
	}
	return result
}

// startTold starts the ensembles, all at once.
func startTold(t *testing.T, s toldSetting) []*peers.ZooKeeper {
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	ensembles, errs := make([]*peers.ZooKeeper, *toldEnsembles), make([]error, *toldEnsembles)
	var wg sync.WaitGroup
	for k := range ensembles {
		dir := t.TempDir()
		wg.Go(func() {
			ensembles[k], errs[k] = peers.StartZooKeeper(ctx, dir, peers.ZooKeeperConfig{
				Servers: 3, Relays: true, TickTime: s.tick, ClockRate: s.rate,
				Settings: []string{"initLimit=5", longSessions, "4lw.commands.whitelist=srvr,ruok,mntr"},
			})
		})
	}
	wg.Wait()
	for k := range ensembles {
		closing(t, ensembles[k], errs[k])
	}
	return ensembles
}

// toldTime bounds one run: a session that ends late, a server that starts.
const toldTime = 2 * time.Minute

// repeat makes the fault until take returns false.
func (f *toldFault) repeat(t *testing.T, z *peers.ZooKeeper, s toldSetting, take func(most int) int, result *toldResult) {
	for run := 0; ; run++ {
		faults, holders := 1, f.holders
		if f.each {
			faults = holders
		}
		if faults = take(faults); faults == 0 {
			return
		}
		if f.each {
			holders = faults
		}
		t.Run(fmt.Sprint("run", run), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), toldTime)
			defer cancel()
			leader, err := z.AwaitLeader(ctx)
			must(t, err)
			r := &toldRun{t: t, ctx: ctx, z: z, setting: s, dir: "/" + t.Name(), leader: leader}
			f.meet(r, holders, result)
		})
		if t.Failed() {
			return
		}
	}
}

// linger lets some time pass, so that the fault comes at another moment of every heartbeat each
// time, even right after the lease began.
func (r *toldRun) linger() {
	pause := time.NewTimer(rand.N(2 * r.setting.tick))
	select {
	case <-pause.C:
	case <-r.ctx.Done():
	}
}

// A follower loses its leader and still answers the holders.
func meetFollowerCut(r *toldRun, holders int, result *toldResult) {
	f := (r.leader + 1 + rand.IntN(2)) % 3
	addrs := r.z.Addrs()
	r.lock(holders, func(int) []string { return addrs[f : f+1] }, []string{addrs[r.leader], addrs[3-r.leader-f]})
	r.linger()
	r.z.Cut(f)
	r.settle(time.Now(), nil, result)
	r.z.Heal(f)
	must(r.t, r.z.AwaitReady(r.ctx, f))
}

// everywhere lets holder i begin at server i, and move to any server.
func (r *toldRun) everywhere(int) []string { return r.z.Addrs() }

// The leader dies. The others elect a new one, which restarts every session's clock.
func meetLeaderKill(r *toldRun, holders int, result *toldResult) {
	r.lock(holders, r.everywhere, r.z.Addrs())
	r.linger()
	hurt := time.Now()
	must(r.t, r.z.Kill(r.leader))
	dead := make(chan struct{})
	close(dead) // a server that answers from now on is another one
	r.settle(hurt, dead, result)
	must(r.t, r.z.Restart(r.ctx, r.leader))
	r.felt()
}

// The leader stops for longer than any session lasts, and then continues.
func meetLeaderStop(r *toldRun, holders int, result *toldResult) {
	r.lock(holders, r.everywhere, r.z.Addrs())
	r.linger()
	hurt := time.Now()
	must(r.t, r.z.Stop(r.leader))
	healed := make(chan struct{})
	awake := time.AfterFunc(r.setting.timeout+2*r.setting.tick, func() {
		defer close(healed)
		if err := r.z.Continue(r.leader); err != nil {
			r.t.Error(err)
		}
	})
	defer awake.Stop()
	r.settle(hurt, healed, result)
	must(r.t, r.z.Continue(r.leader))
	must(r.t, r.z.AwaitReady(r.ctx, r.leader))
	r.felt()
}

// felt fails the test if the hurt leader still leads and no holder lost its lock.
func (r *toldRun) felt() {
	now, err := r.z.AwaitLeader(r.ctx)
	must(r.t, err)
	for _, p := range r.pairs {
		if errors.Is(context.Cause(p.hold.Context()), holdfast.ErrLost) {
			return
		}
	}
	if now == r.leader {
		r.t.Errorf("server %d still leads: the fault had no effect", now)
	}
}

// A client's network loses the messages that it sends, or those to it, even on new connections.
func meetClientCut(r *toldRun, holders int, sent bool, result *toldResult) {
	var ways [][]*peers.Proxy
	r.lock(holders, func(int) []string {
		var way []*peers.Proxy
		var servers []string
		for _, addr := range r.z.Addrs() {
			p, err := peers.NewProxy(addr)
			must(r.t, err)
			r.t.Cleanup(p.Close)
			way, servers = append(way, p), append(servers, p.Addr())
		}
		ways = append(ways, way)
		return servers
	}, r.z.Addrs())
	r.linger()
	hurt := time.Now()
	for i, way := range ways {
		// The cuts are spread over time.
		time.AfterFunc(time.Duration(i)*r.setting.tick/10, func() {
			for _, p := range way {
				p.Cut(sent, !sent)
			}
		})
	}
	r.settle(hurt, nil, result)
	result.mu.Lock()
	defer result.mu.Unlock()
	result.cuts += holders - 1 // one per client
	for i, way := range ways {
		lost := 0
		for _, p := range way {
			_, frames := p.Lost()
			lost += frames
			p.Cut(false, false)
		}
		if lost == 0 {
			r.t.Errorf("the cut of client %d lost nothing", i)
		}
	}
}
