package top

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"holdfast/internal/cli/term"
)

// A screen is the size and the colors of the terminal.
type screen struct {
	width, height int
	colored       bool
}

// paint returns text with a color, if the screen has colors.
func (s *screen) paint(i term.Ink, text string) string {
	if !s.colored {
		return text
	}
	return i.Paint(text)
}

// dropped are the columns that a narrow screen does not have, in the order in which they go.
var dropped = []string{"TOKEN", "SESSION", "WHY", "PERMITS", "PREFER", "MODE", "HELD-FOR", "FOR", "WAITERS", "HOLDER"}

// elasticColumns are the columns whose texts are cut where there is no room.
var elasticColumns = []string{"NAME", "HOLDER", "WHO", "WHY"}

// table returns rows in columns that fit the screen. The first row is the heading. A mark is at the selected row, if
// marked is true.
func (s *screen) table(rows [][]term.Cell, selected int, marked, old bool) []string {
	room := s.width - 2 // the mark
	texts := make([][]string, len(rows))
	width := make([]int, len(rows[0]))
	for i, row := range rows {
		texts[i] = make([]string, len(row))
		for j, c := range row {
			text := term.Escape(term.Cut(c.Text, term.MaxCell))
			if text == "" {
				text = "-"
			}
			texts[i][j] = text
			width[j] = max(width[j], ansi.StringWidth(text))
		}
	}
	columns := fitColumns(rows[0], width, room)
	lines := make([]string, len(rows))
	for i, row := range rows {
		pick := i > 0 && i-1 == selected
		var b strings.Builder
		for n, j := range columns {
			text := ansi.Truncate(texts[i][j], width[j], "…")
			pad := strings.Repeat(" ", max(width[j]-ansi.StringWidth(text), 0))
			if n < len(columns)-1 {
				pad += "  "
			}
			if !pick && !old {
				text = s.paint(row[j].Ink, text)
			}
			b.WriteString(text + pad)
		}
		line := b.String()
		switch {
		case pick && marked:
			line = s.paint(term.Reverse, "> "+line)
		case pick:
			line = s.paint(term.Bold, "* "+line)
		case old && i > 0:
			line = s.paint(term.Faint, "  "+line)
		default:
			line = "  " + line
		}
		lines[i] = line
	}
	return lines
}

// fitColumns returns the columns that fit into the room, and makes their widths so.
func fitColumns(heads []term.Cell, width []int, room int) []int {
	columns := make([]int, len(heads))
	for i := range columns {
		columns[i] = i
	}
	elastic := func(i int) bool { return slices.Contains(elasticColumns, heads[i].Text) }
	total := func(of func(int) int) int {
		sum := 2 * (len(columns) - 1)
		for _, i := range columns {
			sum += of(i)
		}
		return sum
	}
	least := func(i int) int {
		if elastic(i) {
			return min(width[i], max(8, room/5))
		}
		return width[i]
	}
	for _, drop := range dropped {
		if total(least) <= room {
			break
		}
		columns = slices.DeleteFunc(columns, func(i int) bool { return heads[i].Text == drop })
	}
	for excess := total(func(i int) int { return width[i] }) - room; excess > 0; excess-- {
		widest := -1
		for _, i := range columns {
			if elastic(i) && width[i] > least(i) && (widest < 0 || width[i] > width[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			break // the screen is very narrow: the lines are cut
		}
		width[widest]--
	}
	return columns
}
