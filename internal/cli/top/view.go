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
	most := max(m.screen.height-2, 1)
	if m.dialog.asking != nil {
		most = max(m.screen.height, 1)
	}
	if n := len(l.bottom); n > most { // the first lines of a question say what happens to whom, the last how to answer
		first := (most - 1) / 2
		l.bottom = append(l.bottom[:first:first], l.bottom[n-most+first:]...)
		if first > 0 {
			l.bottom[first] = "…"
		}
	}
	body := m.screen.height - 1 - len(l.bottom)
	if body >= 6 {
		l.queue = max(body*2/5, body-1-len(m.selection.shown)) // also the lines that the locks do not need
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
	if m.screen.width <= 0 || m.screen.height <= 0 {
		return nil
	}
	layout := m.layOut()
	f := frame{&m.feed, &m.selection, &m.screen, now, now, m.feed.stale(now)}
	if f.old != "" {
		f.at = m.feed.asOf // of old data, no time goes on
	}
	lines := []string{f.state()}
	if m.helping {
		lines = append(lines, helpLines...)
	} else {
		lines = append(lines, f.locks(layout.rows)...)
		lines = append(lines, f.queue(layout.queue)...)
	}
	body := max(m.screen.height-len(layout.bottom), 0)
	lines = slices.Grow(lines[:min(len(lines), body)], m.screen.height)
	for len(lines) < body {
		lines = append(lines, "")
	}
	lines = append(lines, layout.bottom...)
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.screen.width, "…")
	}
	return lines[:min(len(lines), m.screen.height)]
}

// A frame is what the screen shows of the locks at one time.
type frame struct {
	feed      *feed
	selection *selection
	screen    *screen

	now time.Time
	at  time.Time // up to which the times of the locks go on
	old string    // why the locks may have changed since, or ""
}

// state returns the first line: of when the list is, and what is in it.
func (f frame) state() string {
	const clock = "15:04:05"
	switch {
	case f.feed.asOf.IsZero() && f.old != "":
		return f.screen.paint(term.Red, term.Escape(term.Cut(f.old, 250)))
	case f.feed.asOf.IsZero():
		return "reading the locks …"
	case f.old != "":
		return f.screen.paint(term.Red, fmt.Sprintf("OLD: of %s, %s ago: %s", f.feed.asOf.Format(clock), term.Age(f.feed.asOf, f.now), term.Escape(term.Cut(f.old, 250))))
	}
	text := f.feed.asOf.Format(clock)
	if f.now.Sub(f.feed.asOf) > slack {
		text += ", " + term.Age(f.feed.asOf, f.now) + " ago"
	}
	text += fmt.Sprintf("  %s, %d held, %d waiting", plural(len(f.feed.list), "lock"), f.feed.held, f.feed.waiting)
	if f.selection.filter != "" {
		text += fmt.Sprintf("; %d with %s", len(f.selection.shown), term.Escape(f.selection.filter))
	}
	return text + "; by " + f.selection.order.Sort
}

// plural returns a number of things.
func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// locks returns the heading and the visible locks.
func (f frame) locks(rows int) []string {
	if len(f.selection.shown) == 0 {
		switch {
		case f.feed.asOf.IsZero():
			return nil
		case f.selection.filter != "":
			return []string{"no lock with " + term.Escape(f.selection.filter)}
		}
		return []string{"no locks"}
	}
	s := f.selection
	l := see.Listing(s.name, s.shown[s.top:min(s.top+rows, len(s.shown))], f.at)
	grid := l.Grid(false)
	return f.screen.table(grid.Rows, s.row-s.top, !s.inQueue, f.old != "")
}

// queue returns the pane of the selected lock.
func (f frame) queue(height int) []string {
	l := f.selection.lock()
	if height == 0 || l == nil {
		return nil
	}
	lines := []string{f.screen.paint(term.Bold, "── "+term.Escape(term.Cut(f.selection.name(l.Path), term.MaxCell))+" is "+term.Cut(l.Summary(f.at), 500))}
	if d := f.feed.stuck[l.Path]; d != nil {
		for _, line := range d.Lines()[:min(2, max(height-2, 0))] {
			lines = append(lines, f.screen.paint(term.Red, line))
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
	first := window(0, f.selection.place, len(l.Queue), rows)
	listing := l.Places(f.at)
	listing.Items = listing.Items[first:min(first+rows, len(l.Queue))]
	shown := []string{"POSITION", "WHO", "FOR", "MODE", "SESSION", "TOKEN", "WHY"}
	listing.Columns = slices.DeleteFunc(listing.Columns, func(c term.Column[int]) bool { return !slices.Contains(shown, c.Head) })
	grid := listing.Grid(true)
	table := f.screen.table(grid.Rows, f.selection.place-first, f.selection.inQueue, f.old != "")
	if !headed {
		table = table[1:]
	}
	return append(lines, table...)
}

// bottom returns the last lines of the screen.
func (m *model) bottom() []string {
	text := ""
	switch {
	case m.dialog.asking != nil:
		text = m.dialog.asking.text + "\n" + m.screen.paint(term.Bold, m.dialog.asking.action.Name+" it? y: yes; any other key: no")
	case m.helping:
		text = "any key ends the help"
	case m.selection.typing:
		text = "/" + term.Escape(m.selection.filter) + "_"
	case m.leaving:
		text = "ends after: " + term.Escape(m.dialog.doing) + " (q: end now)"
	case m.dialog.message != "":
		text = term.Escape(term.Cut(m.dialog.message, 500))
	case m.dialog.doing != "":
		text = term.Escape(m.dialog.doing)
	default:
		if n := len(m.selection.shown); n > 0 {
			text = fmt.Sprintf("%d/%d  ", m.selection.row+1, n)
		}
		return []string{text + "? help  q quit  b break  r revoke  / filter  tab queue  s sort"}
	}
	return strings.Split(ansi.Wrap(text, max(m.screen.width, 1), ""), "\n")
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
