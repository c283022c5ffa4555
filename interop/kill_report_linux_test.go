package interop

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// figures is p50, p99, max and the overlaps of a row.
func (r *killRow) figures() string {
	if len(r.results) == 0 {
		return "next holder: " + r.never
	}
	p50, p99, most := killTimes(r.results)
	return fmt.Sprintf("%d kills: p50 %v, p99 %v, max %v, %d overlaps", len(r.results), p50, p99, most, killOverlaps(r.results))
}

func killTimes(results []killResult) (p50, p99, most time.Duration) {
	var took []time.Duration
	for _, r := range results {
		took = append(took, r.took.Round(100*time.Microsecond))
	}
	slices.Sort(took)
	at := func(p int) time.Duration { return took[(len(took)*p+99)/100-1] } // the nearest rank
	return at(50), at(99), at(100)
}

func killOverlaps(results []killResult) (n int) {
	for _, r := range results {
		if r.overlap != "" {
			n++
		}
	}
	return n
}

func (g *killGoal) verdict(p50, p99, most time.Duration) string {
	if p50 > g.p50 || p99 > g.p99 || most > g.most {
		return "missed"
	}
	return "met"
}

// write writes the tables into the document.
func (k *killTable) write(path string) error {
	ctx := context.Background()
	var ours, others strings.Builder
	fmt.Fprintf(&ours, "Measured %s at commit %s, in %v.\n\n- Machine: %s. Load average at the start: %s.\n- Versions: %s, %s.\n", k.began.Format(time.DateOnly), commit(ctx),
		time.Since(k.began).Round(time.Second), machine(), k.load, strings.Join(versions(ctx), ", "), firstLine(ctx, "flock", "--version"))
	if k.oomMissing != nil {
		fmt.Fprintf(&ours, "- Without kills for want of memory: %v.\n", k.oomMissing)
	}
	ours.WriteString("\n| Server | Holder | Kills | p50 ms | p99 ms | max ms | Overlaps | Goal |\n|---|---|---:|---:|---:|---:|---:|---|\n")
	others.WriteString("\n| Server | Holder | Kills | median s | max s | Overlaps |\n|---|---|---:|---:|---:|---:|\n")
	signals := make(map[string][]killResult)
	for _, r := range k.rows {
		switch {
		case len(r.results) == 0:
			fmt.Fprintf(&others, "| %s | %s | %d | %s | | 0 |\n", r.server, r.holder, r.kills, r.never)
		case r.goal == nil:
			p50, _, most := killTimes(r.results)
			fmt.Fprintf(&others, "| %s | %s | %d | %.1f | %.1f | %d |\n", r.server, r.holder, len(r.results), p50.Seconds(), most.Seconds(), killOverlaps(r.results))
		default:
			p50, p99, most := killTimes(r.results)
			fmt.Fprintf(&ours, "| %s | %s | %d | %.1f | %.1f | %.1f | %d | %s |\n", r.server, r.holder, len(r.results),
				killMillis(p50), killMillis(p99), killMillis(most), killOverlaps(r.results), r.goal.verdict(p50, p99, most))
			for _, x := range r.results {
				if r.server != "a file" && r.holder != "shard" {
					signals[x.signal] = append(signals[x.signal], x)
				}
			}
		}
	}
	ours.WriteString("\n| Signal, all rows of holdfast but shard | Kills | p50 ms | p99 ms | max ms | Overlaps |\n|---|---:|---:|---:|---:|---:|\n")
	for _, s := range []string{"KILL", "SEGV", "ABRT", "OOM"} {
		if len(signals[s]) > 0 {
			p50, p99, most := killTimes(signals[s])
			fmt.Fprintf(&ours, "| %s | %d | %.1f | %.1f | %.1f | %d |\n", s, len(signals[s]), killMillis(p50), killMillis(p99), killMillis(most), killOverlaps(signals[s]))
		}
	}
	return replaceMeasured(path, "kills", ours.String()+others.String())
}

func killMillis(d time.Duration) float64 { return d.Seconds() * 1000 }
