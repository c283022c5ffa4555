package term

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// newTestScreen returns a screen with that many columns. 0 means that another job has the terminal.
func newTestScreen(columns *int) *Screen { return &Screen{width: func() int { return *columns }} }

func TestProgressIsDrawnInPlace(t *testing.T) {
	columns := 40
	s := newTestScreen(&columns)
	show := func(at Slot, text string) said { return said{progress: &progress{at, text}} }
	for i, tt := range []struct {
		m       said
		columns int
		want    string
	}{
		{show(SlotQueue, ""), 40, ""},
		{show(SlotQueue, "one"), 40, "holdfast: one"},
		{show(SlotQueue, "one"), 40, ""},
		{show(SlotQueue, "two"), 40, "\r\x1b[Kholdfast: two"},
		{said{line: "a message\n"}, 40, "\r\x1b[Ka message\nholdfast: two"},
		// A reason for the lost contact comes first.
		{show(SlotContact, "no contact"), 40, "\r\x1b[Kholdfast: no contact"},
		{show(SlotQueue, "three"), 40, ""},
		{show(SlotContact, ""), 40, "\r\x1b[Kholdfast: three"},
		{show(SlotQueue, strings.Repeat("x", 29)), 40, "\r\x1b[Kholdfast: " + strings.Repeat("x", 29)},
		{show(SlotQueue, strings.Repeat("x", 30)), 40, "\r\x1b[Kholdfast: " + strings.Repeat("x", 27) + "…"},
		{show(SlotQueue, "short"), 12, "\r\x1b[Kholdfast:…"},
		// Another job gets the terminal, and gives it back.
		{show(SlotQueue, "four"), 0, ""},
		{said{line: "a message\n"}, 0, "a message\n"},
		{show(SlotQueue, "five"), 40, "holdfast: five"},
		{show(SlotQueue, ""), 40, "\r\x1b[K"},
		{said{line: "a message\n"}, 40, "a message\n"},
	} {
		columns = tt.columns
		if got := s.render(tt.m); got != tt.want {
			t.Errorf("step %d: %q; want %q", i, got, tt.want)
		}
	}
}

// A line never wraps, whatever characters it has.
func TestProgressFits(t *testing.T) {
	for _, text := range []string{"", "plain", strings.Repeat("a", 200), strings.Repeat("世", 100), strings.Repeat("a世", 70), "é\u0301…"} {
		for columns := range 120 {
			got := fit(text, columns)
			cells := 0
			for _, r := range got {
				if cells++; r > 0x7e && r != '…' {
					cells++
				}
			}
			switch {
			case !utf8.ValidString(got):
				t.Fatalf("%q in %d columns: %q", text, columns, got)
			case cells > max(columns, 1):
				t.Fatalf("%q in %d columns: %q has %d", text, columns, got, cells)
			case got != text && !strings.HasPrefix(text, strings.TrimSuffix(got, "…")):
				t.Fatalf("%q in %d columns: %q", text, columns, got)
			}
		}
	}
}

func TestLongMessagesAreCut(t *testing.T) {
	s := NewQueue(nil)
	s.Line("waiting for %s: %s", strings.Repeat("n", 100_000), "held by x")
	if m := <-s.queue; len(m.line) > MaxMessage || !strings.Contains(m.line, "held by x") {
		t.Errorf("%d bytes: %.300s", len(m.line), m.line)
	}
}
