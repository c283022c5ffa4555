package term

import (
	"os"
	"time"
)

// On a terminal, a wait shows its progress in one line that is updated in place, and erased at the end. On
// a pipe it prints lines instead.

// ProgressStep is how often the line is updated.
const ProgressStep = time.Second

// A Slot is a source of progress. The first slot with text is shown.
type Slot int

// The slots, the first first.
const (
	SlotContact Slot = iota // no server answers
	SlotQueue               // the place in the queue
	slots
)

// progress is the text of a slot from now on, without a newline. Without text, the slot shows nothing.
type progress struct {
	slot Slot
	text string
}

// Live reports whether progress is shown in place.
func (s *Sayer) Live() bool { return s.screen != nil }

// Progress shows text in place of the previous text of the slot.
func (s *Sayer) Progress(at Slot, text string) {
	if s.screen == nil || s.settled.Load() {
		return
	}
	select {
	case s.queue <- said{progress: &progress{at, text}}:
	default:
	}
}

// Settle erases the progress for good, and waits until it is erased, at most a second. The terminal is then
// for the command.
func (s *Sayer) Settle() {
	if s.screen == nil {
		return
	}
	for at := range slots {
		s.Progress(at, "")
	}
	s.settled.Store(true)
	s.Flush()
}

// A Screen is a terminal whose last line shows progress. Only the goroutine of a sayer uses it.
type Screen struct {
	width func() int // in columns; 0 if nothing may be drawn at present
	texts [slots]string
	drawn string // the progress on the screen
}

const (
	eraseLine = "\r\x1b[K"
	// unknownWidth is the width of a terminal that does not know its own.
	unknownWidth = 80
)

// NewScreen returns nil if the terminal cannot erase a line.
func NewScreen(width func() int) *Screen {
	if term := os.Getenv("TERM"); term == "" || term == "dumb" || width() == 0 {
		return nil
	}
	return &Screen{width: width}
}

// render returns what to write for a message.
func (s *Screen) render(m said) string {
	if m.progress != nil {
		s.texts[m.progress.slot] = m.progress.text
	}
	text := ""
	for _, t := range s.texts {
		if text == "" {
			text = t
		}
	}
	width := s.width()
	if width == 0 { // another process has the terminal now
		s.drawn = ""
		return m.line
	}
	if text != "" {
		text = fit("holdfast: "+text, width-1) // the last column can wrap
	}
	if m.line == "" && text == s.drawn {
		return ""
	}
	out := m.line + text
	if s.drawn != "" {
		out = eraseLine + out
	}
	s.drawn = text
	return out
}

// fit cuts text to a number of columns. It counts two for each character beyond ASCII, so that it is never
// too long.
func fit(text string, columns int) string {
	const more = "…"
	used, end := 0, 0 // end: where to cut if the text is too long
	for i, r := range text {
		cells := 1
		if r > 0x7e {
			cells = 2
		}
		if used += cells; used > columns {
			return text[:end] + more
		}
		if used+2 <= columns {
			end = i + len(string(r))
		}
	}
	return text
}

// NoticeAfter is how long a wait lasts before holdfast reports it.
const NoticeAfter = time.Second
