package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"holdfast"
	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// perLock bounds how many locks top reads in a second, whatever --interval is.
const perLock = time.Millisecond

// A model is what top knows and shows. Update changes it, View draws it. Neither waits for anything.
type model struct {
	interval time.Duration
	order    see.Filter
	colored  bool
	name     func(path string) string

	read    func() tea.Msg // reads the locks; it may take long
	act     func(a deed.Action, name, path, dir string, places []holdfast.Entry) tea.Cmd
	contact func() (down time.Time, causes string)

	list     []see.Lock // of the last reading, by path
	stuck    map[string]*deadlock.Deadlock
	shown    []see.Lock    // those that the filter chooses, in the user's order
	held     int           // of list
	waiting  int           // places in all queues of list
	asOf     time.Time     // when the last reading began; zero: there was none
	due      time.Time     // when the next reading is to begin
	failed   error         // of a later reading
	reading  time.Time     // when the reading under way began; zero: none is
	took     time.Duration // by the last reading
	readings int           // that have begun

	width, height int
	path          string // of the selected lock
	row, top      int    // of the selected lock and of the first visible one, in shown
	node          string // of the selected place
	place         int    // in the queue
	inQueue       bool   // the keys select a place, not a lock
	filter        string
	typing        bool // the filter
	helping       bool
	asking        *question
	doing         string // the action under way
	leaving       bool   // when it has ended
	message       string // until the next key
	fault         error  // that ended the program
}

func newModel(interval time.Duration, order see.Filter, name func(string) string) *model {
	return &model{interval: interval, order: order, name: name, contact: func() (time.Time, string) { return time.Time{}, "" }}
}

// Init begins the first reading.
func (m *model) Init() tea.Cmd { return tea.Batch(m.begin(), tick()) }

func tick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tickMsg{} }) }

// begin begins a reading, unless there is one under way.
func (m *model) begin() tea.Cmd {
	if !m.reading.IsZero() {
		return nil
	}
	m.reading = time.Now()
	m.readings++
	return m.read
}

// Update handles a message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.handle(msg)
	m.top = window(m.top, m.row, len(m.shown), m.layOut().rows)
	return m, cmd
}

func (m *model) handle(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		if m.typing {
			m.narrow(m.filter + msg.Content)
		}
	case tickMsg: // the times go on
		return tick()
	case dueMsg:
		if msg.readings == m.readings {
			return m.begin()
		}
	case listMsg:
		return m.take(msg)
	case doneMsg:
		return m.done(msg)
	}
	return nil
}

// take takes the result of a reading.
func (m *model) take(l listMsg) tea.Cmd {
	m.reading = time.Time{}
	took := l.ended.Sub(l.began)
	pause := max(m.interval-took, min(took, m.took), time.Duration(len(l.found))*perLock) // of an outage, only the reading is long
	m.took = took
	m.failed, m.due = l.err, l.ended.Add(pause)
	if l.err == nil {
		m.list, m.stuck, m.asOf = l.found, l.stuck, l.began
		m.held, m.waiting = 0, 0
		for _, l := range m.list {
			m.held += min(l.Holders(), 1)
			m.waiting += l.Waiters()
		}
		m.arrange()
		m.check()
	} else {
		pause = max(m.interval, pause)
		passing := errors.Is(l.err, zk.ErrSessionExpired) || errors.Is(l.err, zk.ErrConnectionLoss) || errors.Is(l.err, zk.ErrThrottled)
		if m.asOf.IsZero() && !passing {
			m.fault = l.err
			return tea.Quit
		}
	}
	readings := m.readings
	return tea.Tick(pause, func(time.Time) tea.Msg { return dueMsg{readings} })
}

// check takes the question back if it is no longer about what the user saw.
func (m *model) check() {
	if m.asking == nil {
		return
	}
	i := slices.IndexFunc(m.list, func(l see.Lock) bool { return l.Key() == m.asking.lock })
	if i < 0 || !m.asking.holds(m.list[i]) {
		m.message = m.asking.name + " has changed since you were asked; nothing was done"
		m.asking = nil
	}
}

// done takes the result of an action.
func (m *model) done(d doneMsg) tea.Cmd {
	m.doing = ""
	if d.err != nil {
		m.message = fmt.Sprintf("%s %s: %s", d.action.Name, d.name, strings.TrimPrefix(d.err.Error(), "holdfast: "))
	} else {
		m.message = fmt.Sprintf("%s %s, token %d", d.action.Done, d.name, d.token)
	}
	if m.leaving {
		return tea.Quit
	}
	return m.begin()
}

// stale returns why the list may be older than it should be, or "".
func (m *model) stale(now time.Time) string {
	down, causes := m.contact()
	switch {
	case !down.IsZero():
		return "no server answers: " + causes
	case m.failed != nil:
		return strings.TrimPrefix(m.failed.Error(), "holdfast: ")
	case m.asOf.IsZero() && !m.reading.IsZero() && now.Sub(m.reading) <= slack:
		return ""
	case now.Sub(m.asOf) <= m.interval+2*time.Duration(len(m.list))*perLock+late:
		return ""
	case !m.reading.IsZero():
		return "the server is slow: reading for " + term.Age(m.reading, now)
	case m.stopped(now):
		return "top was stopped"
	}
	return "the server is slow"
}

const (
	late  = 5 * time.Second // how much older than --interval the list may be before it counts as old
	slack = 2 * time.Second // how late the next reading may begin
)

// stopped reports whether the next reading is late and has not begun.
func (m *model) stopped(now time.Time) bool { return now.After(m.due.Add(slack)) }

// arrange chooses and orders the locks to show. The selected lock stays selected. If it is gone, the selection stays
// in its row.
func (m *model) arrange() {
	filter := strings.ToLower(m.filter)
	shown := make([]see.Lock, 0, len(m.list))
	for _, l := range m.list {
		if filter == "" || m.matches(l, filter) {
			shown = append(shown, l)
		}
	}
	m.shown = m.order.Apply(shown, m.asOf)
	if i := slices.IndexFunc(m.shown, func(l see.Lock) bool { return l.Key() == m.path }); i >= 0 {
		m.row = i
		m.selectPlace()
		return
	}
	m.selectRow(m.row)
}

// matches reports whether a lock has the text, which is in lower case.
func (m *model) matches(l see.Lock, text string) bool {
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return has(m.name(l.Path)) || slices.ContainsFunc(l.Queue, func(e locks.Place) bool { return has(e.Owner) || has(e.Reason) })
}

// selected returns the selected lock, or nil if no lock is shown.
func (m *model) selected() *see.Lock {
	if m.row >= len(m.shown) {
		return nil
	}
	return &m.shown[m.row]
}

// selectRow selects a lock.
func (m *model) selectRow(row int) {
	m.row = max(min(row, len(m.shown)-1), 0)
	if l := m.selected(); l != nil && l.Key() != m.path {
		m.path, m.node, m.place, m.inQueue = l.Key(), "", 0, false
	}
	m.selectPlace()
}

// selectPlace selects the place that was selected before, or the one that is there now.
func (m *model) selectPlace() {
	l := m.selected()
	if l == nil || len(l.Queue) == 0 {
		m.node, m.place, m.inQueue = "", 0, false
		return
	}
	i := slices.IndexFunc(l.Queue, func(e locks.Place) bool { return e.Path == m.node })
	if i < 0 {
		i = min(m.place, len(l.Queue)-1)
	}
	if !m.inQueue {
		i = 0
	}
	m.place, m.node = i, l.Queue[i].Path
}

// move moves the selection by some rows.
func (m *model) move(by int) {
	if l := m.selected(); m.inQueue && l != nil && len(l.Queue) > 0 {
		m.place = max(min(m.place+by, len(l.Queue)-1), 0)
		m.node = l.Queue[m.place].Path
		return
	}
	m.selectRow(m.row + by)
}

// key handles a key.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	m.message = ""
	key := k.String()
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case key == "ctrl+z":
		return tea.Suspend
	case m.asking != nil:
		return m.answer(key)
	case m.helping:
		m.helping = false
		return nil
	case m.typing:
		m.write(key, k.Text)
		return nil
	}
	page := max(m.layOut().rows, 1)
	switch key {
	case "q":
		return m.leave()
	case "up", "k":
		m.move(-1)
	case "down", "j":
		m.move(1)
	case "pgup":
		m.move(-page)
	case "pgdown":
		m.move(page)
	case "home", "g":
		m.move(-max(len(m.shown), m.inLine()))
	case "end", "G":
		m.move(max(len(m.shown), m.inLine()))
	case "tab", "enter":
		m.inQueue = !m.inQueue && m.inLine() > 0
		m.selectPlace()
	case "esc":
		if m.inQueue {
			m.inQueue = false
			m.selectPlace()
		} else {
			m.narrow("")
		}
	case "/":
		m.typing = true
	case "s":
		m.reorder()
	case "b":
		m.ask(deed.Breaking)
	case "r":
		m.ask(deed.Revoking)
	case "?":
		m.helping = true
	}
	return nil
}

// inLine returns how many places the selected queue has.
func (m *model) inLine() int {
	if l := m.selected(); l != nil {
		return len(l.Queue)
	}
	return 0
}

// leave ends the program, or waits for the action under way.
func (m *model) leave() tea.Cmd {
	if m.doing == "" || m.leaving {
		return tea.Quit
	}
	m.leaving = true
	return nil
}

// write handles a key of the filter.
func (m *model) write(key, text string) {
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing = false
		m.narrow("")
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(m.filter)
		m.narrow(m.filter[:len(m.filter)-n])
	case "ctrl+u":
		m.narrow("")
	default:
		m.narrow(m.filter + text)
	}
}

// narrow changes the filter.
func (m *model) narrow(filter string) {
	m.filter = strings.ToValidUTF8(filter[:min(len(filter), term.MaxCell)], "")
	m.arrange()
}

// reorder takes the next order.
func (m *model) reorder() {
	orders := []string{"wait", "name", "hold"}
	m.order.Sort = orders[(slices.Index(orders, m.order.Sort)+1)%len(orders)]
	m.message = "order: " + m.order.Sort
	m.arrange()
}

// ask asks whether to do a to the selected place.
func (m *model) ask(a deed.Action) {
	l := m.selected()
	down, _ := m.contact()
	switch {
	case l == nil:
		m.message = "no lock is selected"
	case l.Unreadable:
		m.message = "no permission to read " + m.name(l.Path)
	case len(l.Queue) == 0:
		m.message = m.name(l.Path) + " is free: nobody holds it or waits for it"
	case m.doing != "":
		m.message = "wait for the last action to end"
	case !down.IsZero():
		m.message = "no server answers, so nothing can be done now"
	default:
		m.asking = newQuestion(a, m.name(l.Path), *l, m.place, m.asOf)
	}
}

// answer takes the answer to the question.
func (m *model) answer(key string) tea.Cmd {
	q := m.asking
	m.asking = nil
	if key != "y" {
		m.message = "nothing was done"
		return nil
	}
	m.doing = fmt.Sprintf("%s %s, token %d …", q.action.Name, q.name, q.places[0].Token)
	return m.act(q.action, q.name, q.path, q.dir, q.places)
}

// window returns the first row to show, so that the row at is among them. It moves first as little as it can.
func window(first, at, n, rows int) int {
	rows = max(rows, 1)
	first = min(first, at, max(n-rows, 0))
	return max(first, at-rows+1, 0)
}
