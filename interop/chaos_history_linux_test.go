package interop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"holdfast/chaos"
)

// endClaims adds what a killed process could not write any more, and nothing else.
func TestChaosHistoryOfAProcessThatWasKilled(t *testing.T) {
	const killed = 10 * time.Second
	held := chaos.Op{Claim: 1, Kind: chaos.Acquire, Lock: "/l", Outcome: chaos.OK, Call: 1, Return: 2, Token: 5}
	unknown := held
	unknown.Outcome = chaos.Unknown
	end := func(kind chaos.Kind, at time.Duration) chaos.Op {
		o := held
		o.Kind, o.Call, o.Return = kind, at, chaos.Never
		return o
	}
	leaving := chaos.Op{Kind: releasing, Claim: 1, Call: 4}
	for _, c := range []struct {
		name   string
		ops    []chaos.Op
		killed time.Duration
		want   []chaos.Op
	}{
		{"it held", []chaos.Op{held}, killed, []chaos.Op{held, end(chaos.Lose, killed)}},
		{"it was about to release", []chaos.Op{held, leaving}, killed, []chaos.Op{held, end(chaos.Release, 4)}},
		{"it had released", []chaos.Op{held, leaving, end(chaos.Release, 4)}, killed, []chaos.Op{held, end(chaos.Release, 4)}},
		{"it had lost", []chaos.Op{held, end(chaos.Lose, 3)}, killed, []chaos.Op{held, end(chaos.Lose, 3)}},
		{"it waited", []chaos.Op{unknown}, killed, []chaos.Op{unknown}},
		{"it ended in peace", []chaos.Op{held, leaving}, 0, []chaos.Op{held}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := endClaims(c.ops, c.killed); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v; want %v", got, c.want)
			}
		})
	}
}

// Claims of a stopped process are excused from the moment it stopped. No other claims are.
func TestChaosExcusesWhoDidNotRun(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name             string
		call, ret, end   time.Duration // end 0 means never
		process          int
		stalled, excused bool
	}{
		{name: "over before", call: 1 * s, ret: 2 * s, end: 5 * s, process: 1},
		{name: "lost after it woke", call: 1 * s, ret: 2 * s, end: 14*s + s/10, process: 1, excused: true},
		{name: "kept", call: 1 * s, ret: 2 * s, end: 20 * s, process: 1},
		{name: "told on waking", call: 9 * s, ret: 14*s + s/10, end: 14*s + s/5, process: 1, excused: true},
		{name: "begun after", call: 15 * s, ret: 16 * s, end: 17 * s, process: 1},
		{name: "another process", call: 1 * s, ret: 2 * s, end: 14*s + s/10, process: 2},
		{name: "a stall", call: 29 * s, ret: 30 * s, end: 31 * s, process: 2, stalled: true, excused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := &chaosRun{pauses: []chaosPause{{process: 1, from: 10 * s, to: 14 * s}}}
			o := chaos.Op{Claim: 1, Kind: chaos.Acquire, Outcome: chaos.OK, Lock: "/l", Token: 7, Call: c.call, Return: c.ret}
			over := o
			over.Kind, over.Call, over.Return = chaos.Lose, c.end, chaos.Never
			var events []chaosEvent
			if c.stalled {
				events = append(events, chaosEvent{What: chaosStalled, At: 30*s + s/2, For: s})
			}
			got := run.excuse(c.process, []chaos.Op{o, over}, events)
			if (len(got) == 1) != c.excused {
				t.Fatalf("got %v; want excused: %t", got, c.excused)
			}
			if c.excused && (got[0].Kind != chaos.Break || got[0].Token != 7 || got[0].Call < c.call || got[0].Call >= c.end) {
				t.Errorf("got %v", got[0])
			}
		})
	}
}

// A lock that only one worker takes is no contended operation. A Commit with an unknown outcome hides no
// loss.
func TestChaosCountsWhatItShows(t *testing.T) {
	attempt := chaos.Op{Kind: chaos.Acquire, Outcome: chaos.OK}
	shared, private := attempt, attempt
	shared.Claim, shared.Lock = 1, chaosPath("mutex", 1)
	private.Claim, private.Lock = 2, chaosPath(chaosPrivate, 1003)
	events := []chaosEvent{
		{What: storeCommitting, Value: 5}, {What: storeCommit, Value: 5},
		{What: storeCommitting, Value: 6, Read: 5}, {What: storeCommit, Value: 6},
		{What: storeCommitting, Value: 7, Read: 5}, // it has overwritten 6
	}
	r := &chaosResult{Lost: make(map[string]int), Updates: make(map[string]int)}
	r.count([]chaos.Op{shared, private}, events)
	if r.Operations != 2 || r.Contended != 1 {
		t.Errorf("%d operations, %d contended; want 2 and 1", r.Operations, r.Contended)
	}
	if r.commits(events, 7); r.Updates[storeCommit] != 2 || r.Lost[storeCommit] != 1 || len(r.Sweep) > 0 {
		t.Errorf("%d of %d updates lost, %v; want 1 of 2", r.Lost[storeCommit], r.Updates[storeCommit], r.Sweep)
	}
	if r.commits(events, 8); len(r.Sweep) != 1 {
		t.Errorf("%v; want an error, since nobody has tried 8", r.Sweep)
	}
}

// Two holders of one slot are found, and so is a slot whose tokens do not grow. Holders of two slots are none.
func TestChaosFindsASlotThatIsHeldTwice(t *testing.T) {
	path := chaosPath("slots", 1)
	claim := func(id, slot int, token int64, from, until time.Duration) []chaos.Op {
		o := chaos.Op{
			Claim: id, Kind: chaos.Acquire, Lock: path, Type: chaos.Semaphore, Limit: slotCount, Outcome: chaos.OK, Return: from,
			Token: token, Node: fmt.Sprintf("%s/slots/slot-%010d", path, slot),
		}
		end := o
		end.Kind, end.Call, end.Return = chaos.Release, until, until
		return []chaos.Op{o, end}
	}
	for _, c := range []struct {
		name string
		ops  [][]chaos.Op
		want string // the oracle, or nothing
	}{
		{"two slots", [][]chaos.Op{claim(1, 0, 7, 1, 5), claim(2, 1, 8, 2, 5)}, ""},
		{"one after the other", [][]chaos.Op{claim(1, 0, 7, 1, 2), claim(2, 0, 8, 3, 5)}, ""},
		{"held twice", [][]chaos.Op{claim(1, 0, 7, 1, 5), claim(2, 0, 8, 2, 5)}, "overlap"},
		{"an older token", [][]chaos.Op{claim(1, 0, 7, 1, 2), claim(2, 0, 6, 3, 5)}, "token order"},
	} {
		t.Run(c.name, func(t *testing.T) {
			vs := chaos.Sweep(chaos.BySlot(slices.Concat(c.ops...), isSlots))
			if len(vs) > 0 != (c.want != "") || len(vs) > 0 && vs[0].Oracle != c.want {
				t.Errorf("%v; want %q", vs, c.want)
			}
		})
	}
}

// A shard that no process works on in the end is found. A killed process works on none.
func TestChaosFindsAForgottenShard(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel() // nothing is waited for
	for _, c := range []struct {
		name    string
		working []int // the process of each shard: 0 and 1 live
		idle    int
	}{
		{"all", []int{0, 1, 0, 1, 0, 1, 0, 1}, 0},
		{"one without a worker", []int{0, 1, 0, -1, 0, 1, 0, 1}, 1},
		{"one with a worker that was killed", []int{0, 1, 0, 1, 0, 1, 2, 1}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := &chaosRun{ctx: over}
			dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
			for _, dir := range dirs[:2] {
				run.processes = append(run.processes, &chaosProcess{dir: dir})
			}
			for shard, process := range c.working {
				if process >= 0 {
					must(t, os.WriteFile(filepath.Join(dirs[process], shardFile(shard, "7")), nil, 0o600))
				}
			}
			if idle := run.forgotten(); len(idle) != c.idle {
				t.Errorf("%q; want %d", idle, c.idle)
			}
		})
	}
}

// Paths of the history name the kinds of their locks.
func TestChaosNamesTheKindOfALock(t *testing.T) {
	for path, want := range map[string]string{
		chaosPath("mutex", 0): "mutex", chaosPath("slots", 2) + "#1": "slots", chaos.TreeLocks(chaosPath("tree", 1), "a/b")[2].Lock: "tree",
		onceLock(chaosPath("most", 0), "5"): "most", chaosShards(nil).Path(3): "shards", chaosPath("dine", 0) + "/2": "dine", chaosPath("lead", 0): "lead", storePath: "store",
	} {
		if got := chaosKind(path); got != want {
			t.Errorf("%s: %s; want %s", path, got, want)
		}
	}
}
