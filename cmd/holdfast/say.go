package main

import (
	"fmt"
	"io"
	"time"
)

// A sayer prints messages without ever waiting for their reader: a terminal that is
// paused with ctrl-S, or a full pipe, must not keep the supervisor from killing a command
// in time. What cannot be printed is dropped. Its goroutine ends with the process: it may
// be stuck in a write.
type sayer struct {
	queue chan said
}

type said struct {
	line  string
	heard chan<- struct{} // closed when the line is printed, if not nil
}

func newSayer(w io.Writer) *sayer {
	s := &sayer{queue: make(chan said, 32)}
	go func() {
		for m := range s.queue {
			_, _ = io.WriteString(w, m.line) // nobody is left to be told of a failure
			if m.heard != nil {
				close(m.heard)
			}
		}
	}()
	return s
}

// line prints one line.
func (s *sayer) line(format string, args ...any) {
	select {
	case s.queue <- said{line: "holdfast: " + fmt.Sprintf(format, args...) + "\n"}:
	default:
	}
}

// flush waits for what has been said to be printed, but not long.
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
