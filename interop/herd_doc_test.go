//go:build unix

package interop

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"holdfast/interop/plot"
)

// writeHerd writes the comparison into herd.md, between its marker lines, and into herd.svg.
// rows are the releases of each recipe, for each number of waiters.
func writeHerd(dir string, numbers []int, rows [][][]traffic) error {
	var table strings.Builder
	table.WriteString("| recipe | waiters | clients woken, most | notifications | requests | bytes to the server | bytes to the clients |\n|---|---:|---:|---:|---:|---:|---:|\n")
	bytesPer := plot.Panel{Title: "bytes per release, both directions", X: "waiters", Y: "bytes"}
	told := plot.Panel{Title: "notifications per release", X: "waiters", Y: "notifications"}
	for i, perNumber := range rows {
		var size, events plot.Line
		size.Name, events.Name = herdRecipes[i].line, herdRecipes[i].line
		for j, releases := range perNumber {
			woken := slices.MaxFunc(releases, func(a, b traffic) int { return a.woken - b.woken }).woken
			fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s | %s |\n", herdRecipes[i].name, thousands(numbers[j]), thousands(woken),
				thousands(typical(releases, func(t traffic) int { return t.notifications })),
				thousands(typical(releases, func(t traffic) int { return t.requests })),
				thousands(typical(releases, func(t traffic) int { return t.toServer })),
				thousands(typical(releases, func(t traffic) int { return t.toClients })))
			at := float64(numbers[j])
			size.Points = append(size.Points, plot.Point{X: at, Y: float64(typical(releases, bothWays))})
			events.Points = append(events.Points, plot.Point{X: at, Y: float64(typical(releases, func(t traffic) int { return t.notifications }))})
		}
		bytesPer.Lines, told.Lines = append(bytesPer.Lines, size), append(told.Lines, events)
	}
	if err := plot.Write(filepath.Join(dir, "herd.svg"), bytesPer, told); err != nil {
		return err
	}
	return replaceMeasured(filepath.Join(dir, "herd.md"), "herd", table.String())
}

// replaceMeasured puts text between the lines <!-- measured: NAME --> and <!-- end -->.
func replaceMeasured(path, name, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte("<!-- measured: "+name+" -->\n"))
	_, after, ended := bytes.Cut(rest, []byte("<!-- end -->\n"))
	if !ok || !ended {
		return fmt.Errorf("%s has no place for the measurements of %s", path, name)
	}
	return os.WriteFile(path, fmt.Appendf(nil, "%s<!-- measured: %s -->\n%s<!-- end -->\n%s", before, name, text, after), 0o644)
}

// thousands formats n readably: 1,234,567.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
