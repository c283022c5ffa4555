//go:build linux

package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A report collects what a run of BenchmarkTable has measured, prints it, and writes it
// into docs/explanation/benchmarks.md if asked to.
type report struct {
	began  time.Time
	commit string
	disk   []float64 // µs of an append and fdatasync each, before and after the rows
	dir    string
	rows   []*measurement
}

func newReport(tb testing.TB) *report {
	r := &report{began: time.Now(), commit: commit(tb.Context()), dir: tb.TempDir()}
	r.timeDisk(tb)
	return r
}

// timeDisk measures a write that waits for the disk.
func (r *report) timeDisk(tb testing.TB) {
	l, err := newBareLog(filepath.Join(r.dir, "disk"))
	must(tb, err)
	defer l.file.Close()
	for range 1000 {
		began := time.Now()
		must(tb, l.append())
		r.disk = append(r.disk, float64(time.Since(began).Nanoseconds())/1e3)
	}
}

func (r *report) add(m *measurement) {
	r.rows = append(r.rows, m)
	progress("row %d took %v, %v since the beginning", m.row.number, m.took.Round(100*time.Millisecond), time.Since(r.began).Round(time.Second))
}

// finish prints the table, and writes the files.
func (r *report) finish(tb testing.TB) {
	if len(r.rows) == 0 {
		return
	}
	r.timeDisk(tb)
	var text bytes.Buffer
	r.head(tb.Context(), &text)
	for _, m := range r.rows {
		m.table(&text, r.commit)
		if len(m.cold) > 0 {
			fmt.Fprintf(&text, "Not at a steady rate when the samples began: %s.\n\n", strings.Join(m.cold, "; "))
		}
		if m.rounds < r.rows[0].rounds {
			fmt.Fprintf(&text, "%d rounds, for want of time.\n\n", m.rounds)
		}
	}
	fmt.Print(text.String())
	if *tableFile == "" {
		return
	}
	must(tb, replaceMarked(*tableFile, text.Bytes()))
	plots := strings.TrimSuffix(*tableFile, ".md")
	must(tb, os.MkdirAll(plots, 0o777))
	must(tb, os.WriteFile(filepath.Join(plots, "samples.txt"), r.samples(), 0o666))
	must(tb, r.plot(plots))
}

// head says what was measured, where and when.
func (r *report) head(ctx context.Context, w *bytes.Buffer) {
	rounds := 0
	for _, m := range r.rows {
		rounds = max(rounds, m.rounds)
	}
	disk := estimateOf(r.disk)
	slices.Sort(r.disk)
	fmt.Fprintf(w, "Measured %s at commit %s, in %v, %d rounds each%s.\n\n", r.began.Format("2006-01-02"), r.commit,
		time.Since(r.began).Round(time.Second), rounds, map[bool]string{true: " (`-quick`)"}[*quick])
	fmt.Fprintf(w, "- Machine: %s.\n", machine())
	fmt.Fprintf(w, "- Disk: %s; append of %d bytes + fdatasync: median %.0f µs, nine in ten below %.0f µs.\n", filesystem(r.dir), recordSize, disk.median, r.disk[len(r.disk)*9/10])
	fmt.Fprintf(w, "- Versions: %s.\n\n", strings.Join(versions(ctx), ", "))
}

// table writes the row as Markdown: the figures of each side, the ratios and the verdicts.
func (m *measurement) table(w *bytes.Buffer, commit string) {
	fmt.Fprintf(w, "### %d. %s\n\n", m.row.number, m.row.work)
	fmt.Fprintf(w, "| at %s | %s | spread | ratio (95 %%) | goal | |\n|---|%s---|---|---|---|\n", commit,
		strings.Join(m.row.units, " | "), strings.Repeat("---:|", len(m.row.units)))
	for _, s := range m.sides {
		if err := m.failed[s.name]; err != nil {
			text, _, _ := strings.Cut(err.Error(), "\n")
			fmt.Fprintf(w, "| %s | %s– | | | | failed: %s |\n", s.name, strings.Repeat("– | ", len(m.row.units)-1), text)
			continue
		}
		cells := []string{s.name}
		for _, unit := range m.row.units {
			cells = append(cells, digits(estimateOf(m.values[s.name][unit]).median))
		}
		cells = append(cells, estimateOf(m.values[s.name][m.row.units[0]]).spread())
		first := true
		for _, g := range m.row.goals() {
			if g.line() != s.name {
				continue
			}
			if !first { // a second goal against the same side has a line of its own
				fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
				cells = make([]string, len(m.row.units)+2)
			}
			first = false
			cells = append(cells, m.judge(g)...)
		}
		for len(cells) < len(m.row.units)+5 {
			cells = append(cells, "")
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
	fmt.Fprintln(w)
}

// line is the side beside which a goal stands: the other, if it is the first side's.
func (g goal) line() string {
	if g.who != "" {
		return g.who
	}
	return g.than
}

// judge is ratio, goal and verdict.
func (m *measurement) judge(g goal) []string {
	if g.unit == "" {
		g.unit = m.row.units[0]
	}
	if g.limit > 0 {
		is := estimateOf(m.values[g.who][g.unit])
		return []string{fmt.Sprintf("%s %s (%s … %s)", digits(is.median), g.unit, digits(is.lo), digits(is.hi)), g.String(), g.verdict(is)}
	}
	who := g.who
	if who == "" {
		who = m.sides[0].name
	}
	ratio := estimateOf(g.ratios(m.values[who][g.unit], m.values[g.than][g.unit]))
	what := fmt.Sprintf("%s × (%s … %s)", digits(ratio.median), digits(ratio.lo), digits(ratio.hi))
	if g.who != "" {
		what += " " + g.than
	}
	if g.unit != m.row.units[0] {
		what += ", " + g.unit
	}
	return []string{what, g.String(), g.verdict(ratio)}
}

// samples returns all figures and their commit in the form that benchstat reads.
func (r *report) samples() []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "commit: %s\ndate: %s\n\n", r.commit, r.began.Format("2006-01-02"))
	for _, m := range r.rows {
		for _, s := range m.sides {
			units := m.row.units
			for i := range m.values[s.name][units[0]] {
				fmt.Fprintf(&w, "BenchmarkTable/%d-%s/%s 1", m.row.number, m.row.name, slug(s.name))
				for _, unit := range units {
					if v := m.values[s.name][unit]; i < len(v) {
						fmt.Fprintf(&w, " %g %s", v[i], unit)
					}
				}
				fmt.Fprintln(&w)
			}
		}
	}
	return w.Bytes()
}

const beginMark, endMark = "<!-- measured: begin (make bench writes what is between the marks) -->\n", "<!-- measured: end -->\n"

// replaceMarked puts text between the marks of a file.
func replaceMarked(path string, text []byte) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(beginMark))
	_, after, ok2 := bytes.Cut(rest, []byte(endMark))
	if !ok || !ok2 {
		return fmt.Errorf("%s: has not the two lines between which the table goes", path)
	}
	return os.WriteFile(path, slices.Concat(before, []byte(beginMark), []byte("\n"), text, []byte(endMark), after), 0o666)
}
