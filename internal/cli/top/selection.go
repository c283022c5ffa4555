package top

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
)

// A selection is which locks top shows and in which order, and which lock, and which place in its queue, the user has
// selected.
type selection struct {
	name   func(path string) string
	order  see.Filter
	filter string
	typing bool // the filter

	all  []see.Lock // of the last reading
	asOf time.Time  // when it began

	shown   []see.Lock // those that the filter chooses, in the user's order
	path    string     // of the selected lock
	row     int        // of the selected lock, in shown
	top     int        // the first visible row of shown
	node    string     // of the selected place
	place   int        // in the queue
	inQueue bool       // the keys select a place, not a lock
}

// take takes the locks of a reading.
func (s *selection) take(all []see.Lock, asOf time.Time) {
	s.all, s.asOf = all, asOf
	s.arrange()
}

// arrange chooses and orders the locks to show. The selected lock stays selected. If it is gone, the selection stays
// in its row.
func (s *selection) arrange() {
	filter := strings.ToLower(s.filter)
	shown := make([]see.Lock, 0, len(s.all))
	for _, l := range s.all {
		if filter == "" || s.matches(l, filter) {
			shown = append(shown, l)
		}
	}
	s.shown = s.order.Apply(shown, s.asOf)
	if i := slices.IndexFunc(s.shown, func(l see.Lock) bool { return l.Key() == s.path }); i >= 0 {
		s.row = i
		s.selectPlace()
		return
	}
	s.selectRow(s.row)
}

// matches reports whether a lock has the text, which is in lower case.
func (s *selection) matches(l see.Lock, text string) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return has(s.name(l.Path)) || slices.ContainsFunc(l.Queue, func(e locks.Place) bool { return has(e.Owner) || has(e.Reason) })
}

// lock returns the selected lock, or nil if no lock is shown.
func (s *selection) lock() *see.Lock {
	if s.row >= len(s.shown) {
		return nil
	}
	return &s.shown[s.row]
}

// inLine returns how many places the selected queue has.
func (s *selection) inLine() int {
	if l := s.lock(); l != nil {
		return len(l.Queue)
	}
	return 0
}

func (s *selection) selectRow(row int) {
	s.row = max(min(row, len(s.shown)-1), 0)
	if l := s.lock(); l != nil && l.Key() != s.path {
		s.path, s.node, s.place, s.inQueue = l.Key(), "", 0, false
	}
	s.selectPlace()
}

// selectPlace selects the place that was selected before, or the one that is there now.
func (s *selection) selectPlace() {
	l := s.lock()
	if l == nil || len(l.Queue) == 0 {
		s.node, s.place, s.inQueue = "", 0, false
		return
	}
	i := slices.IndexFunc(l.Queue, func(e locks.Place) bool { return e.Path == s.node })
	if i < 0 {
		i = min(s.place, len(l.Queue)-1)
	}
	if !s.inQueue {
		i = 0
	}
	s.place, s.node = i, l.Queue[i].Path
}

// move moves the selection by some rows.
func (s *selection) move(by int) {
	if l := s.lock(); s.inQueue && l != nil && len(l.Queue) > 0 {
		s.place = max(min(s.place+by, len(l.Queue)-1), 0)
		s.node = l.Queue[s.place].Path
		return
	}
	s.selectRow(s.row + by)
}

// moveFar moves the selection to the first row, or to the last one.
func (s *selection) moveFar(toLast bool) {
	by := max(len(s.shown), s.inLine())
	if !toLast {
		by = -by
	}
	s.move(by)
}

// enter lets the keys select a place in the queue, or a lock.
func (s *selection) enter(queue bool) {
	s.inQueue = queue && s.inLine() > 0
	s.selectPlace()
}

// write handles a key of the filter.
func (s *selection) write(key, text string) {
	switch key {
	case "enter":
		s.typing = false
	case "esc":
		s.typing = false
		s.narrow("")
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(s.filter)
		s.narrow(s.filter[:len(s.filter)-n])
	case "ctrl+u":
		s.narrow("")
	default:
		s.narrow(s.filter + text)
	}
}

// narrow changes the filter.
func (s *selection) narrow(filter string) {
	s.filter = strings.ToValidUTF8(filter[:min(len(filter), term.MaxCell)], "")
	s.arrange()
}

// reorder takes the next order.
func (s *selection) reorder() {
	orders := []string{"wait", "name", "hold"}
	s.order.Sort = orders[(slices.Index(orders, s.order.Sort)+1)%len(orders)]
	s.arrange()
}

// scroll makes the selected row visible.
func (s *selection) scroll(rows int) { s.top = window(s.top, s.row, len(s.shown), rows) }

// window returns the first row to show, so that the row at is among them. It moves first as little as it can.
func window(first, at, n, rows int) int {
	rows = max(rows, 1)
	first = min(first, at, max(n-rows, 0))
	return max(first, at-rows+1, 0)
}
