package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// chaosTable makes the table of docs/contributing/reliability.md from all results in a file.
func chaosTable(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := chaosResult{Lost: make(map[string]int), Updates: make(map[string]int), Met: make(map[string]int)}
	runs := 0
	for line := range bytes.Lines(text) {
		var r chaosResult
		if err := json.Unmarshal(line, &r); err != nil {
			return "", err
		}
		sum.add(&r)
		runs++
	}
	var b strings.Builder
	row := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
	}
	seen := sum.kinds()
	effects := 0
	for _, n := range seen {
		effects += n
	}
	b.WriteString("| what | figure |\n|---|---|\n")
	row("runs, time under faults", "%d, %v", runs, sum.Took.Round(time.Second))
	row("faults with an effect that was seen; without; kinds", "%d; %d; %d", effects, len(sum.Faults)-effects, len(seen))
	row("lock operations checked by the sweep (claims among them)", "%d (%d)", sum.Operations, sum.Claims)
	row("lock operations on locks that several want", "%d", sum.Contended)
	row("of these, checked by Porcupine; pieces; undecided", "%d; %d; %d", sum.LinearOps, sum.Pieces, sum.Undecided)
	row("violations: overlap of claims, token order, FIFO, permit limit, term, refused without cause", "%d", len(sum.Sweep))
	row("violations: linearizability", "%d", len(sum.Linear))
	row("claims that their holders were told to have lost", "%d", sum.LostClaims)
	row("claims excused, since their process did not run (paused by a nemesis, or stalled for more than the guard)", "%d", sum.Excused)
	row("sessions ended, connections lost", "%d, %d", sum.Sessions, sum.Broken)
	row("nodes left behind in the end", "%d", len(sum.Orphans))
	row("clients with a goroutine or a file descriptor left", "%d", len(sum.Leaks))
	for _, store := range stores {
		row("lost updates, "+store+"; pauses between reading and writing", "%d of %d; %d", sum.Lost[store], sum.Updates[store], sum.Met[store])
	}
	row("leader killed → next acquire begun after it", "%s", percentiles(sum.LeaderKills))
	row("holder killed → handoff to who waited", "%s", percentiles(sum.HolderKills))
	b.WriteString("\n| fault | times |\n|---|---|\n")
	for _, of := range [][]nemesis{ensembleNemeses, processNemeses, stingNemeses} {
		for _, n := range of {
			row(n.kind, "%d", seen[n.kind])
		}
	}
	return b.String(), nil
}

// add adds o to the sums.
func (r *chaosResult) add(o *chaosResult) {
	r.Took += o.Took
	r.Faults = append(r.Faults, o.Faults...)
	for sum, n := range map[*int]int{
		&r.Operations: o.Operations, &r.Contended: o.Contended, &r.Claims: o.Claims, &r.LostClaims: o.LostClaims, &r.Excused: o.Excused,
		&r.LinearOps: o.LinearOps, &r.Pieces: o.Pieces, &r.Undecided: o.Undecided,
		&r.Sessions: o.Sessions, &r.Broken: o.Broken, &r.Stalls: o.Stalls,
	} {
		*sum += n
	}
	r.Sweep, r.Linear = append(r.Sweep, o.Sweep...), append(r.Linear, o.Linear...)
	r.Orphans, r.Leaks = append(r.Orphans, o.Orphans...), append(r.Leaks, o.Leaks...)
	for _, store := range stores {
		r.Met[store] += o.Met[store]
		r.Lost[store] += o.Lost[store]
		r.Updates[store] += o.Updates[store]
	}
	r.LeaderKills = slices.Concat(r.LeaderKills, o.LeaderKills)
	r.HolderKills = slices.Concat(r.HolderKills, o.HolderKills)
}
