package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// A sayer prints messages and never waits for their reader. A terminal paused with ctrl-S, or a full
// pipe, must not stop the supervisor from killing a command in time. If the queue is full, the sayer
// drops messages. Its goroutine ends with the process, since a write may block for ever.
type sayer struct {
	queue   chan said
	log     clientLogFlags
	screen  *screen     // of a terminal on which progress is shown in place; else nil
	settled atomic.Bool // no more progress
}

type said struct {
	line     string
	progress *progress
	heard    chan<- struct{} // closed when the line is printed, if not nil
}

// newSayer returns a sayer that prints to w.
func newSayer(w io.Writer) *sayer {
	s := newQueue(nil)
	go s.deliver(w, nil)
	return s
}

// newQueue returns a sayer whose messages wait for deliver. screen may be nil.
func newQueue(screen *screen) *sayer { return &sayer{queue: make(chan said, 32), screen: screen} }

// deliver prints the messages to w. When until is closed and no message is left, deliver returns.
func (s *sayer) deliver(w io.Writer, until <-chan struct{}) {
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

// line prints one line.
func (s *sayer) line(format string, args ...any) {
	select {
	case s.queue <- said{line: s.log.format.message(levelInfo, brief(fmt.Sprintf(format, args...)), "")}:
	default:
	}
}

// detail prints one line with --verbose.
func (s *sayer) detail(format string, args ...any) {
	if s.log.verbose {
		s.line(format, args...)
	}
}

// flush waits until all messages are printed, at most a second.
func (s *sayer) flush() {
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
