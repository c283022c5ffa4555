package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
)

// A split is how many lines each part of the screen has.
type split struct {
	rows   int // of locks, below their heading
	queue  int // the whole pane; 0: none
	bottom []string
}

// layOut divides the screen: a line for the state of the reading, the heading and the locks, the queue of the
// selected lock, and the bottom: a message, a question or the keys.
func (m *model) layOut() split {
	l := split{bottom: m.bottom()}
	most := max(m.height-2, 1)
	if m.asking != nil {
		most = max(m.height, 1)
	}
	if n := len(l.bottom); n > most { // the first lines of a question say what happens to whom, the last how to answer
		first := (most - 1) / 2
		l.bottom = append(l.bottom[:first:first], l.bottom[n-most+first:]...)
		if first > 0 {
			l.bottom[first] = "…"
		}
	}
	body := m.height - 1 - len(l.bottom)
	if body >= 6 {
		l.queue = max(body*2/5, body-1-len(m.shown)) // also the lines that the locks do not need
	}
	l.rows = max(body-1-l.queue, 0)
	return l
}

// View draws the screen. It looks only at the locks that are visible.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.lines(time.Now()), "\n"))
	v.AltScreen = true
	return v
}

// lines returns the lines of the screen. None is longer than the screen is wide.
func (m *model) lines(now time.Time) []string {
	if m.width <= 0 || m.height <= 0 {
		return nil
	}
	layout := m.layOut()
	old := m.stale(now)
	at := now
	if old != "" {
		at = m.asOf // of old data, no time goes on
	}
	lines := []string{m.state(now, old)}
	if m.helping {
		lines = append(lines, helpLines...)
	} else {
		lines = append(lines, m.locks(layout.rows, at, old != "")...)
		lines = append(lines, m.queue(layout.queue, at, old != "")...)
	}
	body := max(m.height-len(layout.bottom), 0)
	lines = slices.Grow(lines[:min(len(lines), body)], m.height)
	for len(lines) < body {
		lines = append(lines, "")
	}
	lines = append(lines, layout.bottom...)
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return lines[:min(len(lines), m.height)]
}

// paint returns text with a color, if the screen has colors.
func (m *model) paint(i term.Ink, text string) string {
	if !m.colored {
		return text
	}
	return i.Paint(text)
}

// state returns the first line: of when the list is, and what is in it.
func (m *model) state(now time.Time, old string) string {
	const clock = "15:04:05"
	switch {
	case m.asOf.IsZero() && old != "":
		return m.paint(term.Red, term.Escape(term.Cut(old, 250)))
	case m.asOf.IsZero():
		return "reading the locks …"
	case old != "":
		return m.paint(term.Red, fmt.Sprintf("OLD: of %s, %s ago: %s", m.asOf.Format(clock), term.Age(m.asOf, now), term.Escape(term.Cut(old, 250))))
	}
	text := m.asOf.Format(clock)
	if now.Sub(m.asOf) > slack {
		text += ", " + term.Age(m.asOf, now) + " ago"
	}
	text += fmt.Sprintf("  %s, %d held, %d waiting", plural(len(m.list), "lock"), m.held, m.waiting)
	if m.filter != "" {
		text += fmt.Sprintf("; %d with %s", len(m.shown), term.Escape(m.filter))
	}
	return text + "; by " + m.order.Sort
}

// plural returns a number of things.
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// locks returns the heading and the visible locks.
func (m *model) locks(rows int, at time.Time, old bool) []string {
	if len(m.shown) == 0 {
		switch {
		case m.asOf.IsZero():
			return nil
		case m.filter != "":
			return []string{"no lock with " + term.Escape(m.filter)}
		}
		return []string{"no locks"}
	}
	l := see.Listing(m.name, m.shown[m.top:min(m.top+rows, len(m.shown))], at)
	grid := l.Grid(false)
	return m.table(grid.Rows, m.row-m.top, !m.inQueue, old)
}

// queue returns the pane of the selected lock.
func (m *model) queue(height int, at time.Time, old bool) []string {
	l := m.selected()
	if height == 0 || l == nil {
		return nil
	}
	lines := []string{m.paint(term.Bold, "── "+term.Escape(term.Cut(m.name(l.Path), term.MaxCell))+" is "+term.Cut(l.Summary(at), 500))}
	if d := m.stuck[l.Path]; d != nil {
		for _, line := range d.Lines()[:min(2, max(height-2, 0))] {
			lines = append(lines, m.paint(term.Red, line))
		}
	}
	if len(l.Queue) == 0 {
		return lines
	}
	rows := height - 1 - len(lines)
	headed := rows >= 3
	if !headed {
		rows++
	}
	first := window(0, m.place, len(l.Queue), rows)
	listing := l.Places(at)
	listing.Items = listing.Items[first:min(first+rows, len(l.Queue))]
	shown := []string{"POSITION", "WHO", "FOR", "MODE", "SESSION", "TOKEN", "WHY"}
	listing.Columns = slices.DeleteFunc(listing.Columns, func(c term.Column[int]) bool { return !slices.Contains(shown, c.Head) })
	grid := listing.Grid(true)
	table := m.table(grid.Rows, m.place-first, m.inQueue, old)
	if !headed {
		table = table[1:]
	}
	return append(lines, table...)
}

// dropped are the columns that a narrow screen does not have, in the order in which they go.
var dropped = []string{"TOKEN", "SESSION", "WHY", "PERMITS", "MODE", "HELD-FOR", "FOR", "WAITERS", "HOLDER"}

// elasticColumns are the columns whose texts are cut where there is no room.
var elasticColumns = []string{"NAME", "HOLDER", "WHO", "WHY"}

// table returns rows in columns that fit the screen. The first row is the heading. A mark is at the selected row, if
// marked is true.
func (m *model) table(rows [][]term.Cell, selected int, marked, old bool) []string {
	room := m.width - 2 // the mark
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
				text = m.paint(row[j].Ink, text)
			}
			b.WriteString(text + pad)
		}
		line := b.String()
		switch {
		case pick && marked:
			line = m.paint(term.Reverse, "> "+line)
		case pick:
			line = m.paint(term.Bold, "* "+line)
		case old && i > 0:
			line = m.paint(term.Faint, "  "+line)
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

// bottom returns the last lines of the screen.
func (m *model) bottom() []string {
	text := ""
	switch {
	case m.asking != nil:
		text = m.asking.text + "\n" + m.paint(term.Bold, m.asking.action.Name+" it? y: yes; any other key: no")
	case m.helping:
		text = "any key ends the help"
	case m.typing:
		text = "/" + term.Escape(m.filter) + "_"
	case m.leaving:
		text = "ends after: " + term.Escape(m.doing) + " (q: end now)"
	case m.message != "":
		text = term.Escape(term.Cut(m.message, 500))
	case m.doing != "":
		text = term.Escape(m.doing)
	default:
		if n := len(m.shown); n > 0 {
			text = fmt.Sprintf("%d/%d  ", m.row+1, n)
		}
		return []string{text + "? help  q quit  b break  r revoke  / filter  tab queue  s sort"}
	}
	return strings.Split(ansi.Wrap(text, max(m.width, 1), ""), "\n")
}

var helpLines = []string{
	"b            break: take the lock away",
	"r            revoke: ask to release it",
	"/            filter by name, owner, why",
	"s            order: wait, name, hold",
	"tab enter    select a place in the queue",
	"esc          to the locks; no filter",
	"up down k j  select a lock",
	"pgup pgdown  a page",
	"home end g G first, last",
	"q ctrl-C     end",
	"",
	"≤ at most: the time since the holder joined the queue",
	"* the selected lock or place; > the one that the keys move",
}
