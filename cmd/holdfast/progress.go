package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"holdfast"
	"holdfast/zk"
)

// On a terminal, a wait shows its progress in one line that is updated in place, and erased at the end. On
// a pipe it prints lines instead: see notice and contact.tell.

const (
	// progressStep is how often the line is updated.
	progressStep = time.Second
	// lookAgain is how often the line's queue is read.
	lookAgain = 2 * time.Second
)

// A slot is a source of progress. The first slot with text is shown.
type slot int

const (
	slotContact slot = iota // no server answers
	slotQueue               // the place in the queue
	slots
)

// progress is the text of a slot from now on, without a newline. Without text, the slot shows nothing.
type progress struct {
	slot slot
	text string
}

// live reports whether progress is shown in place.
func (s *sayer) live() bool { return s.screen != nil }

// progress shows text in place of the previous text of the slot.
func (s *sayer) progress(at slot, text string) {
	if s.screen == nil || s.settled.Load() {
		return
	}
	select {
	case s.queue <- said{progress: &progress{at, text}}:
	default:
	}
}

// settle erases the progress for good, and waits until it is erased, at most a second. The terminal is then
// for the command.
func (s *sayer) settle() {
	if s.screen == nil {
		return
	}
	for at := range slots {
		s.progress(at, "")
	}
	s.settled.Store(true)
	s.flush()
}

// A screen is a terminal whose last line shows progress. Only the goroutine of a sayer uses it.
type screen struct {
	width func() int // in columns; 0 if nothing may be drawn at present
	texts [slots]string
	drawn string // the progress on the screen
}

const (
	eraseLine = "\r\x1b[K"
	// unknownWidth is the width of a terminal that does not know its own.
	unknownWidth = 80
)

// newScreen returns nil if the terminal cannot erase a line.
func newScreen(width func() int) *screen {
	if term := os.Getenv("TERM"); term == "" || term == "dumb" || width() == 0 {
		return nil
	}
	return &screen{width: width}
}

// render returns what to write for a message.
func (s *screen) render(m said) string {
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

// show shows the place in the queue until ctx ends.
func (k *taker) show(ctx context.Context, c *zk.Client) {
	defer k.say.progress(slotQueue, "")
	queues, rests := make(map[string][]holdfast.Entry), make(map[string]string)
	var looked time.Time
	step := noticeAfter
	for {
		session, err := c.Session(ctx)
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-session.Context().Done():
			looked = time.Time{}
			continue
		case <-time.After(step):
		}
		step = progressStep
		if time.Since(looked) >= lookAgain {
			looked = time.Now()
			for _, path := range k.paths() {
				queues[path] = k.look(ctx, c, path)
				rests[path] = k.resting(ctx, c, path, queues[path], session.ID())
			}
		}
		text := ""
		for _, path := range k.paths() {
			if what := cmp.Or(waitingFor(queues[path], session.ID(), k.kind.node), rests[path]); what != "" && text == "" {
				text = fmt.Sprintf("waiting for %s: %s", escape(k.called(path)), what)
			}
		}
		k.say.progress(slotQueue, text)
	}
}

// show shows that no server answers, while this is so, until ctx ends.
func (c *contact) show(ctx context.Context, say *sayer) {
	defer say.progress(slotContact, "")
	step := time.NewTicker(progressStep)
	defer step.Stop()
	for {
		say.progress(slotContact, c.connecting())
		select {
		case <-ctx.Done():
			return
		case <-c.changed:
		case <-step.C:
		}
	}
}

// connecting returns which servers were tried, and why they do not answer. It returns "" if a server
// answers, or has answered in the last second.
func (c *contact) connecting() string {
	lost := c.lost()
	if lost == 0 {
		return ""
	}
	_, causes := c.state()
	text := fmt.Sprintf("connecting for %v", lost.Truncate(time.Second))
	if all := c.target.zk.Servers; c.target.dir == "" && len(all) > 1 {
		text += fmt.Sprintf(", %d of %d servers tried", c.tried(), len(all))
	}
	return escape(text + ": " + causes)
}

// tried returns how many servers have failed lately.
func (c *contact) tried() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, server := range c.target.zk.Servers {
		for _, f := range c.failures {
			if f.server == server || strings.HasPrefix(f.server, server+" (") {
				n++
				break
			}
		}
	}
	return n
}
