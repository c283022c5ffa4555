//go:build linux

package interop

import (
	"bytes"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"

	"holdfast/interop/plot"
)

// plot draws each row that has a rate or a time per contestant as bars, into bars.svg: ours
// in one colour, the others in another. The thin line at a bar's end is its interval.
func (r *report) plot(dir string) error {
	const (
		left, width, right = 290, 420, 90
		line, gap          = 18, 34
	)
	var w bytes.Buffer
	y := 0
	for _, m := range r.rows {
		if m.row.name == "growth" {
			if err := m.plotGrowth(filepath.Join(dir, "growth.svg")); err != nil {
				return err
			}
			continue
		}
		unit := m.row.units[0]
		highest := 0.0
		for _, s := range m.sides {
			if v := m.values[s.name][unit]; len(v) > 0 {
				highest = max(highest, estimateOf(v).hi)
			}
		}
		if highest == 0 {
			continue
		}
		x := func(v float64) float64 { return left + width*v/highest }
		y += gap
		fmt.Fprintf(&w, `<text x="8" y="%d" font-weight="bold">%d. %s (%s)</text>`+"\n", y-12, m.row.number, html.EscapeString(m.row.work), html.EscapeString(unit))
		for _, s := range m.sides {
			v := m.values[s.name][unit]
			if len(v) == 0 {
				continue
			}
			e := estimateOf(v)
			colour := "#0072b2"
			if strings.HasPrefix(s.name, oursOnApache) {
				colour = "#d55e00"
			}
			fmt.Fprintf(&w, `<text x="%d" y="%d" text-anchor="end">%s</text><rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>`,
				left-8, y+13, html.EscapeString(s.name), left, y+3, x(e.median)-left, line-5, colour)
			fmt.Fprintf(&w, `<path d="M%.1f %dH%.1f" stroke="#000"/><text x="%.1f" y="%d">%s</text>`+"\n",
				x(e.lo), y+line/2, x(e.hi), x(e.hi)+6, y+13, digits(e.median))
			y += line
		}
	}
	if y == 0 {
		return nil
	}
	y += gap / 2
	var file bytes.Buffer
	fmt.Fprintf(&file, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", left+width+right, y)
	fmt.Fprintf(&file, `<rect width="100%%" height="100%%" fill="#fff"/>`+"\n%s</svg>\n", w.Bytes())
	return os.WriteFile(filepath.Join(dir, "bars.svg"), file.Bytes(), 0o666)
}

// plotGrowth draws the curves of row 10.
func (m *measurement) plotGrowth(path string) error {
	var panels []plot.Panel
	for _, what := range []string{heldLocks, inLine} {
		panel := plot.Panel{Title: "One lock passed on, of so many " + what, X: what, Y: "cycles/s"}
		for _, server := range growthServers {
			line := plot.Line{Name: server}
			for _, n := range growthSizes(what) {
				if v := m.values[growthName(server, what, n)]["cycles/s"]; len(v) > 0 {
					line.Points = append(line.Points, plot.Point{X: float64(n), Y: estimateOf(v).median})
				}
			}
			if len(line.Points) > 1 {
				panel.Lines = append(panel.Lines, line)
			}
		}
		if len(panel.Lines) > 0 {
			panels = append(panels, panel)
		}
	}
	if len(panels) == 0 {
		return nil
	}
	return plot.Write(path, panels...)
}
