package interop

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/chaos"
	"holdfast/interop/peers"
	"holdfast/zk"
)

var (
	chaosMinutes = flag.Float64("minutes", 4, "how long the chaos test hurts its ensemble")
	chaosOut     = flag.String("chaos-out", "", "file to which the chaos test appends its result as a line of JSON; beside it, with .md, the table of all of them")
	chaosSeed    = flag.Uint64("chaos-seed", 0, "what the chaos test's faults and clients begin with; 0 is a new one")
)

// Processes take locks of every kind from an ensemble of three. Meanwhile servers are killed, stopped and
// partitioned, connections broken, sessions ended, nodes deleted, and the processes killed and paused.
// No claim overlaps another that it excludes, tokens grow, and nobody overtakes. A key of a Once that is done
// never runs again. In the end every key is done, every shard has a worker, and nothing is left behind. The logs of the
// servers tell the same tenures as the clients.
func TestChaos(t *testing.T) {
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	var c *chaosRun
	var r *chaosResult
	for attempt := 1; ; attempt++ {
		t.Logf("-chaos-seed %d", seed)
		c = startChaos(t, seed)
		r = c.hurt()
		var logs strings.Builder
		if c.z.WriteLogs(&logs); r.sound() || attempt == 3 || !strings.Contains(logs.String(), differentTrees) {
			break
		}
		measured(t, "%v\nBut the servers of the ensemble have different trees; another ensemble", r)
		must(t, c.z.Close())
		seed++
	}
	r.demand(t)
	measured(t, "%v", r)
	if *chaosOut != "" {
		must(t, r.append(*chaosOut))
		table, err := chaosTable(*chaosOut)
		must(t, err)
		must(t, os.WriteFile(*chaosOut+".md", []byte(table), 0o600))
	}
}

// hurt makes the faults, and returns what they have led to.
func (c *chaosRun) hurt() *chaosResult {
	t, seed := c.t, c.seed
	for range chaosProcesses {
		must(t, c.startProcess())
	}
	faults, enough := context.WithTimeout(c.ctx, time.Duration(*chaosMinutes*float64(time.Minute)))
	defer enough()
	var wg sync.WaitGroup
	for i, of := range []struct {
		nemeses []nemesis
		rest    time.Duration
	}{{ensembleNemeses, 2500 * time.Millisecond}, {processNemeses, 1500 * time.Millisecond}, {stingNemeses, 700 * time.Millisecond}} {
		wg.Go(func() { c.torment(faults, of.nemeses, rand.New(rand.NewPCG(seed, uint64(i))), of.rest) })
	}
	wg.Wait()
	pause(c.ctx, 2*time.Second) // all work without faults
	forgotten := c.forgotten()
	ended := monotonic()
	c.stop()
	r := c.judge(ended - c.began)
	r.Sweep = append(r.Sweep, forgotten...)
	r.Orphans = c.orphans()
	return r
}

func startChaos(t *testing.T, seed uint64) *chaosRun {
	ctx, cancel := context.WithTimeout(t.Context(), peerStart)
	defer cancel()
	z, err := peers.StartZooKeeper(ctx, t.TempDir(), peers.ZooKeeperConfig{
		Servers: 3, Relays: true, TickTime: chaosTick, Settings: []string{"syncLimit=12", "initLimit=20"},
	})
	closing(t, z, err)
	c := &chaosRun{t: t, ctx: t.Context(), z: z, dir: t.TempDir(), shared: t.TempDir(), seed: seed, began: monotonic(), met: make(map[string]int)}
	c.admin = dialURL(t, z.URL(), func(cfg *zk.Config) { cfg.SessionTimeout, cfg.TickTime = 6*time.Second, chaosTick })
	for _, path := range []string{"/chaos", commitPath} {
		_, _, err := c.admin.Create(ctx, path, []byte("0"), zk.Persistent)
		must(t, err)
	}
	must(t, os.WriteFile(filepath.Join(c.shared, storeUnfenced), []byte("0"), 0o600))
	must(t, os.WriteFile(filepath.Join(c.shared, storeFenced), make([]byte, 16), 0o600))
	t.Cleanup(func() { // after a failure
		for _, p := range c.processes {
			p.proc.Kill()
			p.closeProxies()
		}
	})
	return c
}

// orphans returns the ephemeral nodes that are left when all possible owners are gone, and
// their sessions with them.
func (c *chaosRun) orphans() []string {
	ctx, cancel := context.WithTimeout(c.ctx, stepTime)
	defer cancel()
	must(c.t, c.whole(ctx))
	giveUp := time.Now().Add(4*chaosTimeout + 10*chaosTick) // the latest session to end, counted anew by the next leader
	for {
		left, err := ephemerals(ctx, c.admin, "/chaos")
		if err == nil && (len(left) == 0 || time.Now().After(giveUp)) {
			return left
		}
		if ctx.Err() != nil {
			return []string{fmt.Sprint("unknown: ", err)}
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// ephemerals returns all ephemeral nodes below a node.
func ephemerals(ctx context.Context, z *zk.Client, path string) ([]string, error) {
	names, _, err := z.Children(ctx, path)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, name := range names {
		node := path + "/" + name
		_, stat, err := z.Get(ctx, node)
		if err != nil {
			return nil, err
		}
		if stat.EphemeralOwner != 0 {
			all = append(all, fmt.Sprintf("%s of session 0x%x", node, uint64(stat.EphemeralOwner)))
		}
		if stat.NumChildren > 0 {
			more, err := ephemerals(ctx, z, node)
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
	}
	return all, nil
}

// lastCommit returns the update that the node of storeCommit names.
func (c *chaosRun) lastCommit() int64 {
	ctx, cancel := context.WithTimeout(c.ctx, stepTime)
	defer cancel()
	must(c.t, c.admin.Sync(ctx, commitPath))
	data, _, err := c.admin.Get(ctx, commitPath)
	must(c.t, err)
	id, err := strconv.ParseInt(string(data), 10, 64)
	must(c.t, err)
	return id
}

// judge checks the records of all processes.
func (c *chaosRun) judge(took time.Duration) *chaosResult {
	ops, events, err := c.history()
	must(c.t, err)
	more, odd := c.askAgain(ops)
	ops = append(ops, more...)
	r := &chaosResult{Seed: c.seed, Took: took, Faults: c.faults, Excused: c.excused, Met: c.met, Lost: make(map[string]int), Updates: make(map[string]int)}
	r.count(ops, events)
	for _, e := range events {
		if e.What == chaosOdd {
			odd = append(odd, e.Text)
		}
	}
	r.Logs = c.fromLogs(ops)
	ops = chaos.BySlot(ops, isSlots)
	r.Sweep = append(odd, texts(chaos.Sweep(ops))...)
	var wrong []string
	r.Newest, wrong = makingRoom(events)
	r.Sweep = append(r.Sweep, wrong...)
	r.commits(events, c.lastCommit())
	exact := exactly(ops)
	report := chaos.Linearizable(exact, 2*time.Second)
	r.Linear, r.LinearOps, r.Pieces, r.Undecided = texts(report.Violations), report.Operations, report.Pieces, report.Undecided
	r.LeaderKills = c.recoveries(ops)
	r.HolderKills = c.handoffs(ops)
	return r
}
