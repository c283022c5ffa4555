package term

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"holdfast/internal/duration"
)

// A Sayer prints messages and never waits for their reader. A terminal paused with ctrl-S, or a full
// pipe, must not stop the supervisor from killing a command in time. If the queue is full, the sayer
// drops messages. Its goroutine ends with the process, since a write may block for ever.
type Sayer struct {
	queue   chan said
	Log     LogFlags
	screen  *Screen     // of a terminal on which progress is shown in place; else nil
	settled atomic.Bool // no more progress
}

type said struct {
	line     string
	progress *progress
	heard    chan<- struct{} // closed when the line is printed, if not nil
}

// NewSayer returns a sayer that prints to w.
func NewSayer(w io.Writer) *Sayer {
	s := NewQueue(nil)
	go s.Deliver(w, nil)
	return s
}

// NewQueue returns a sayer whose messages wait for Deliver. screen may be nil.
func NewQueue(screen *Screen) *Sayer { return &Sayer{queue: make(chan said, 32), screen: screen} }

// Deliver prints the messages to w. When until is closed and no message is left, Deliver returns.
func (s *Sayer) Deliver(w io.Writer, until <-chan struct{}) {
	for {
		var m said
		select {
		case m = <-s.queue:
		default:
			select {
			case m = <-s.queue:
			case <-until:
				return
			}
		}
		text := m.line
		if s.screen != nil {
			text = s.screen.render(m)
		}
		_, _ = io.WriteString(w, text) // a failure cannot be reported anywhere
		if m.heard != nil {
			close(m.heard)
		}
	}
}

// Line prints one line.
func (s *Sayer) Line(format string, args ...any) {
	select {
	case s.queue <- said{line: s.Log.Format.message(levelInfo, Brief(fmt.Sprintf(format, duration.InMessage(args)...)), "")}:
	default:
	}
}

// Detail prints one line with --verbose.
func (s *Sayer) Detail(format string, args ...any) {
	if s.Log.Verbose {
		s.Line(format, duration.InMessage(args)...)
	}
}

// Flush waits until all messages are printed, at most a second.
func (s *Sayer) Flush() {
	heard := make(chan struct{})
	late := time.After(time.Second)
	select {
	case s.queue <- said{heard: heard}:
	case <-late:
		return
	}
	select {
	case <-heard:
	case <-late:
	}
}
