package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/chaos"
)

// A chaosResult is the result of a run.
type chaosResult struct {
	Seed   uint64        `json:"seed"`
	Took   time.Duration `json:"took"`
	Faults []chaosFault  `json:"faults"`

	Operations int            `json:"operations"` // attempts, releases, losses, observations
	Contended  int            `json:"contended"`  // of these, on locks that several workers want
	Claims     int            `json:"claims"`
	Kinds      map[string]int `json:"claims_by_kind"`
	Answers    int            `json:"once_answers"` // results of a Once
	LostClaims int            `json:"lost_claims"`
	Excused    int            `json:"excused_claims"` // claims of processes that did not run
	Sweep      []string       `json:"sweep_violations"`
	LinearOps  int            `json:"porcupine_operations"`
	Pieces     int            `json:"porcupine_pieces"`
	Undecided  int            `json:"porcupine_undecided"`
	Linear     []string       `json:"porcupine_violations"`
	Updates    map[string]int `json:"updates"`      // acknowledged updates, by store
	Lost       map[string]int `json:"lost_updates"` // of these, lost ones
	Met        map[string]int `json:"pauses_met"`   // pauses between reading the store and writing it
	Newest     map[string]int `json:"newest"`       // ends of calls that make room for each other
	Orphans    []string       `json:"orphans"`
	Leaks      []string       `json:"leaks"`
	Logs       *logResult     `json:"servers_logs"`
	Sessions   int            `json:"sessions_over"`
	Broken     int            `json:"connections_lost"`
	Stalls     int            `json:"stalls"`

	LeaderKills []time.Duration `json:"leader_kill_to_acquire"`
	HolderKills []time.Duration `json:"holder_kill_to_handoff"`
}

func texts(vs []chaos.Violation) []string {
	var all []string
	for _, v := range vs {
		all = append(all, v.String())
	}
	return all
}

// count counts operations and the events recorded beside them.
func (r *chaosResult) count(ops []chaos.Op, events []chaosEvent) {
	begun := make(map[int]bool)
	if r.Kinds == nil {
		r.Kinds = make(map[string]int)
	}
	for _, o := range ops {
		switch o.Kind {
		case chaos.Acquire, chaos.Try:
			if o.Outcome == chaos.OK {
				r.Claims++
				r.Kinds[chaosKind(o.Lock)]++
			}
			if begun[o.Claim] { // its begin was recorded, too
				continue
			}
			begun[o.Claim] = true
		case chaos.Answer:
			if o.Outcome == chaos.OK {
				r.Answers++
			}
		case chaos.Lose:
			r.LostClaims++
		case chaos.Break:
			continue
		}
		r.Operations++
		if !isPrivate(o.Lock) {
			r.Contended++
		}
	}
	written := make(map[string]map[int64]bool)
	for _, e := range events {
		switch e.What {
		case storeCommit:
			r.Updates[e.What]++
		case storeUnfenced, storeFenced:
			if written[e.What] == nil {
				written[e.What] = make(map[int64]bool)
			}
			r.Updates[e.What]++
			if written[e.What][e.Value] {
				r.Lost[e.What]++
			}
			written[e.What][e.Value] = true
		case chaosOver:
			r.Sessions++
		case chaosDisconnected:
			r.Broken++
		case chaosStalled:
			r.Stalls++
		case chaosGoroutines, chaosFiles:
			if e.Count > 0 {
				r.Leaks = append(r.Leaks, fmt.Sprintf("%d %s\n%s", e.Count, e.What, e.Text))
			}
		}
	}
}

// commits counts the updates by Commit that are missing from the final value.
func (r *chaosResult) commits(events []chaosEvent, last int64) {
	acknowledged := make(map[int64]bool)
	for _, e := range events {
		if e.What == storeCommit {
			acknowledged[e.Value] = true
		}
	}
	var updates []chaos.Update
	for _, e := range events {
		if e.What == storeCommitting {
			updates = append(updates, chaos.Update{ID: e.Value, Read: e.Read, Acknowledged: acknowledged[e.Value]})
		}
	}
	lost, err := chaos.LostUpdates(updates, last)
	if r.Lost[storeCommit] = len(lost); err != nil {
		r.Sweep = append(r.Sweep, fmt.Sprintf("%s: %v", storeCommit, err))
	}
}

// exactly returns the part of a history that Porcupine can check: a lock that is always in use
// has no moment at which to cut its history.
func exactly(ops []chaos.Op) []chaos.Op {
	const most = 5000 // operations on one lock
	n := make(map[string]int)
	for _, o := range ops {
		n[o.Lock]++
	}
	return slices.DeleteFunc(slices.Clone(ops), func(o chaos.Op) bool { return o.Lock == storePath || n[o.Lock] > most })
}

// recoveries returns the times from the death of a leader to the first acquire begun after it.
func (c *chaosRun) recoveries(ops []chaos.Op) []time.Duration {
	var all []time.Duration
	for _, at := range c.leaders {
		first := chaos.Never
		for _, o := range ops {
			if (o.Kind == chaos.Acquire || o.Kind == chaos.Try) && o.Outcome == chaos.OK && o.Call > at {
				first = min(first, o.Return-at)
			}
		}
		if first != chaos.Never {
			all = append(all, first)
		}
	}
	return all
}

// handoffs returns the times from the death of a process to the next acquire of a lock that it
// held exclusively, where a client was waiting. A handoff takes the end of the session. That is
// later if leaders change meanwhile, since each restarts the session's clock.
func (c *chaosRun) handoffs(ops []chaos.Op) []time.Duration {
	indirect := []string{"slots", "tree", "once", "most", "shards", "dine", "lead"} // what a waiter gets is not, or not only, this lock
	var all []time.Duration
	for _, lost := range ops {
		if lost.Kind != chaos.Lose || lost.Shared || lost.Type == chaos.Semaphore || slices.Contains(indirect, chaosKind(lost.Lock)) || !c.killedAt(lost.Call) {
			continue
		}
		next, waits := chaos.Never, false
		for _, o := range ops {
			if o.Lock != lost.Lock || o.Kind != chaos.Acquire || o.Outcome != chaos.OK || o.Return <= lost.Call {
				continue
			}
			waits = waits || o.Call < lost.Call
			next = min(next, o.Return-lost.Call)
		}
		if waits {
			all = append(all, next)
		}
	}
	return all
}

func (c *chaosRun) killedAt(t time.Duration) bool {
	return slices.ContainsFunc(c.ended, func(p *chaosProcess) bool { return p.killed == t })
}

// sound reports whether nothing was violated and no update was lost.
func (r *chaosResult) sound() bool {
	return len(r.Sweep)+len(r.Linear)+len(r.Orphans)+len(r.Leaks)+len(r.Logs.Different)+r.Lost[storeFenced]+r.Lost[storeCommit] == 0
}

// demand fails the test for violations, and for a run that has shown too little.
func (r *chaosResult) demand(t *testing.T) {
	for what, found := range map[string][]string{
		"the sweep": r.Sweep, "Porcupine": r.Linear, "orphans": r.Orphans, "leaks": r.Leaks, "the servers' logs": r.Logs.Different,
	} {
		if len(found) > 0 {
			t.Errorf("%s: %d, the first:\n%s", what, len(found), strings.Join(found[:min(5, len(found))], "\n"))
		}
	}
	for _, store := range []string{storeFenced, storeCommit} {
		if r.Lost[store] > 0 {
			t.Errorf("%s: %d of %d updates were lost", store, r.Lost[store], r.Updates[store])
		}
		if r.Updates[store] == 0 {
			t.Errorf("%s: no updates", store)
		}
	}
	// Otherwise the zeros of the other stores show nothing.
	if met := r.Met[storeUnfenced]; met >= 3 && r.Lost[storeUnfenced] == 0 {
		t.Errorf("unfenced: nothing was lost, though %d processes were paused before they wrote", met)
	}
	minutes := r.Took.Minutes()
	if least := int(500 * minutes); r.Contended < least {
		t.Errorf("%d operations on locks that several want; want at least %d in %v", r.Contended, least, r.Took)
	}
	for _, kind := range chaosKinds {
		if n, least := r.Kinds[kind], int(10*minutes); n < least {
			t.Errorf("%s: %d claims; want at least %d in %v", kind, n, least, r.Took)
		}
	}
	for _, end := range []string{newestRan, newestSuperseded, newestDropped, newestFull, newestOrdered} {
		if n, least := r.Newest[end], int(minutes); n < least { // few are dropped: mostly, others fill the queue
			t.Errorf("%s: %d calls; want at least %d in %v", end, n, least, r.Took)
		}
	}
	seen := r.kinds()
	if least := int(15 * minutes); len(r.Faults) < least {
		t.Errorf("%d faults; want at least %d in %v", len(r.Faults), least, r.Took)
	}
	if minutes < 3 {
		return
	}
	for _, of := range [][]nemesis{ensembleNemeses, processNemeses, stingNemeses} {
		for _, n := range of {
			if seen[n.kind] == 0 {
				t.Errorf("%s: no fault of this kind had an effect", n.kind)
			}
		}
	}
}

// kinds counts the faults that had an effect.
func (r *chaosResult) kinds() map[string]int {
	n := make(map[string]int)
	for _, f := range r.Faults {
		if f.Error == "" {
			n[f.Kind]++
		}
	}
	return n
}

func (r *chaosResult) String() string {
	seen := r.kinds()
	faults := 0
	var names []string
	for k, n := range seen {
		faults += n
		names = append(names, fmt.Sprintf("%s %d", k, n))
	}
	slices.Sort(names)
	return fmt.Sprintf(`%v: %d faults of %d kinds with effect (%s); %d operations, %d of them on locks that several want; %d claims %v, %d of them lost, %d excused; %d results of Once; %v; %d sessions ended, %d connections lost, %d stalls
sweep: %d violations; Porcupine: %d operations in %d pieces, %d undecided, %d violations; lost updates: unfenced %d of %d, fenced %d of %d, Commit %d of %d (paused on the way %v); %d orphans, %d leaks
%v
leader killed to next acquire: %v; holder killed to handoff: %v`,
		r.Took.Round(time.Second), faults, len(seen), strings.Join(names, ", "), r.Operations, r.Contended, r.Claims, r.Kinds, r.LostClaims, r.Excused, r.Answers, r.Newest, r.Sessions, r.Broken, r.Stalls,
		len(r.Sweep), r.LinearOps, r.Pieces, r.Undecided, len(r.Linear),
		r.Lost[storeUnfenced], r.Updates[storeUnfenced], r.Lost[storeFenced], r.Updates[storeFenced], r.Lost[storeCommit], r.Updates[storeCommit], r.Met,
		len(r.Orphans), len(r.Leaks), r.Logs, percentiles(r.LeaderKills), percentiles(r.HolderKills))
}

// append adds the result to a file, as one line.
func (r *chaosResult) append(path string) error {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(append(line, '\n'))
	return err
}
