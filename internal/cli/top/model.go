package top

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"holdfast/internal/cli/see"
	"holdfast/internal/deed"
)

// A model is what top knows and shows. Update changes it, View draws it. Neither waits for anything.
type model struct {
	feed      feed
	selection selection
	dialog    dialog
	screen    screen
	helping   bool
	leaving   bool  // when the action under way has ended
	fault     error // that ended the program
}

func newModel(interval time.Duration, order see.Filter, name func(string) string) *model {
	return &model{
		feed:      feed{interval: interval, contact: func() (time.Time, string) { return time.Time{}, "" }},
		selection: selection{order: order, name: name},
	}
}

// Init begins the first reading.
func (m *model) Init() tea.Cmd { return tea.Batch(m.feed.begin(), tick()) }

func tick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tickMsg{} }) }

// tickMsg is the message that another second is over.
type tickMsg struct{}

// Update handles a message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.handle(msg)
	m.selection.scroll(m.layOut().rows)
	return m, cmd
}

func (m *model) handle(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.screen.width, m.screen.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		if m.selection.typing {
			m.selection.narrow(m.selection.filter + msg.Content)
		}
	case tickMsg: // the times go on
		return tick()
	case dueMsg:
		if msg.readings == m.feed.readings {
			return m.feed.begin()
		}
	case listMsg:
		return m.take(msg)
	case doneMsg:
		if m.dialog.done(msg); m.leaving {
			return tea.Quit
		}
		return m.feed.begin()
	}
	return nil
}

// take takes the result of a reading.
func (m *model) take(l listMsg) tea.Cmd {
	next, err := m.feed.take(l)
	if err != nil {
		m.fault = err
		return tea.Quit
	}
	if l.err == nil {
		m.selection.take(m.feed.list, m.feed.asOf)
		m.dialog.check(m.feed.list)
	}
	return next
}

// key handles a key.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	m.dialog.message = ""
	key := k.String()
	switch {
	case key == "ctrl+c":
		return tea.Quit
	case key == "ctrl+z":
		return tea.Suspend
	case m.dialog.asking != nil:
		return m.dialog.answer(key)
	case m.helping:
		m.helping = false
		return nil
	case m.selection.typing:
		m.selection.write(key, k.Text)
		return nil
	}
	page := max(m.layOut().rows, 1)
	switch key {
	case "q":
		return m.leave()
	case "up", "k":
		m.selection.move(-1)
	case "down", "j":
		m.selection.move(1)
	case "pgup":
		m.selection.move(-page)
	case "pgdown":
		m.selection.move(page)
	case "home", "g":
		m.selection.moveFar(false)
	case "end", "G":
		m.selection.moveFar(true)
	case "tab", "enter":
		m.selection.enter(!m.selection.inQueue)
	case "esc":
		if m.selection.inQueue {
			m.selection.enter(false)
		} else {
			m.selection.narrow("")
		}
	case "/":
		m.selection.typing = true
	case "s":
		m.selection.reorder()
		m.dialog.message = "order: " + m.selection.order.Sort
	case "b":
		m.ask(deed.Breaking)
	case "r":
		m.ask(deed.Revoking)
	case "?":
		m.helping = true
	}
	return nil
}

// leave ends the program, or waits for the action under way.
func (m *model) leave() tea.Cmd {
	if m.dialog.doing == "" || m.leaving {
		return tea.Quit
	}
	m.leaving = true
	return nil
}

// ask asks whether to do a to the selected place.
func (m *model) ask(a deed.Action) {
	l := m.selection.lock()
	switch {
	case l == nil:
		m.dialog.message = "no lock is selected"
	case l.Unreadable:
		m.dialog.message = "no permission to read " + m.selection.name(l.Path)
	case len(l.Queue) == 0:
		m.dialog.message = m.selection.name(l.Path) + " is free: nobody holds it or waits for it"
	default:
		down, _ := m.feed.contact()
		m.dialog.ask(newQuestion(a, m.selection.name(l.Path), *l, m.selection.place, m.feed.asOf), !down.IsZero())
	}
}
