package top

import (
	"errors"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/zk"
)

// perLock bounds how many locks top reads in a second, whatever --interval is.
const perLock = time.Millisecond

const (
	late  = 5 * time.Second // how much older than --interval the list may be before it counts as old
	slack = 2 * time.Second // how late the next reading may begin
)

// A feed reads the locks again and again, one reading at a time. It waits for nothing itself.
type feed struct {
	interval time.Duration
	read     func() tea.Msg // reads the locks; it may take long
	contact  func() (down time.Time, causes string)

	list     []see.Lock // of the last reading, by path
	stuck    map[string]*deadlock.Deadlock
	held     int           // of list
	waiting  int           // places in all queues of list
	asOf     time.Time     // when the last reading began; zero: there was none
	due      time.Time     // when the next reading is to begin
	failed   error         // of a later reading
	reading  time.Time     // when the reading under way began; zero: none is
	took     time.Duration // by the last reading
	readings int           // that have begun
}

// listMsg is the message of a reading that has ended.
type listMsg struct {
	found        []see.Lock                    // by path
	stuck        map[string]*deadlock.Deadlock // by the path of each lock in it
	began, ended time.Time
	err          error
}

// dueMsg is the message that the next reading is due. It counts only if no other reading has begun since.
type dueMsg struct{ readings int }

// begin begins a reading, unless there is one under way.
func (f *feed) begin() tea.Cmd {
	if !f.reading.IsZero() {
		return nil
	}
	f.reading = time.Now()
	f.readings++
	return f.read
}

// take takes the result of a reading, and returns the command that waits for the next one. The error is one that does not
// pass, of the first reading.
func (f *feed) take(l listMsg) (tea.Cmd, error) {
	f.reading = time.Time{}
	took := l.ended.Sub(l.began)
	pause := max(f.interval-took, min(took, f.took), time.Duration(len(l.found))*perLock) // of an outage, only the reading is long
	f.took = took
	f.failed, f.due = l.err, l.ended.Add(pause)
	if l.err == nil {
		f.list, f.stuck, f.asOf = l.found, l.stuck, l.began
		f.held, f.waiting = 0, 0
		for _, l := range f.list {
			f.held += min(l.Holders(), 1)
			f.waiting += l.Waiters()
		}
	} else {
		pause = max(f.interval, pause)
		passing := errors.Is(l.err, zk.ErrSessionExpired) || errors.Is(l.err, zk.ErrConnectionLoss) || errors.Is(l.err, zk.ErrThrottled)
		if f.asOf.IsZero() && !passing {
			return nil, l.err
		}
	}
	readings := f.readings
	return tea.Tick(pause, func(time.Time) tea.Msg { return dueMsg{readings} }), nil
}

// stale returns why the list may be older than it should be, or "".
func (f *feed) stale(now time.Time) string {
	down, causes := f.contact()
	switch {
	case !down.IsZero():
		return "no server answers: " + causes
	case f.failed != nil:
		return strings.TrimPrefix(f.failed.Error(), "holdfast: ")
	case f.asOf.IsZero() && !f.reading.IsZero() && now.Sub(f.reading) <= slack:
		return ""
	case now.Sub(f.asOf) <= f.interval+2*time.Duration(len(f.list))*perLock+late:
		return ""
	case !f.reading.IsZero():
		return "the server is slow: reading for " + term.Age(f.reading, now)
	case now.After(f.due.Add(slack)): // the next reading has not begun
		return "top was stopped"
	}
	return "the server is slow"
}
