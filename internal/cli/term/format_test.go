package term

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEscapeLeavesNothingForATerminalToObey(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"nightly", "nightly"},
		{`say "hi" \o/`, `say "hi" \o/`},
		{"schöne Grüße 世界 🔒", "schöne Grüße 世界 🔒"},
		{"a\x1b[31mb", `a\x1b[31mb`},
		{"line\nline\ttab\r", `line\nline\ttab\r`},
		{"c1 \u009b31m", `c1 \u009b31m`},
		{"right \u202e left", `right \u202e left`},
		{"\u2066iso", `\u2066iso`},
		{"nul\x00 del\x7f", `nul\x00 del\x7f`},
		{"bad \xff\xfe", `bad \xff\xfe`},
		{"\"\x1b\\", `"\x1b\`},
	} {
		if got := Escape(tt.in); got != tt.want {
			t.Errorf("escape(%q) = %q; want %q", tt.in, got, tt.want)
		}
	}
}

func TestDocumentEscapesWhatJSONWouldNot(t *testing.T) {
	var b strings.Builder
	if err := JSON(&b, map[string]string{"a": "\u009b\U000e0001é"}); err != nil {
		t.Fatal(err)
	}
	if want := "{\n  \"a\": \"\\u009b\\udb40\\udc01é\"\n}\n"; b.String() != want {
		t.Errorf("got %q; want %q", b.String(), want)
	}
}

// A cell that another user has made long does not make every row as long.
func TestLongCellsAreCut(t *testing.T) {
	rows := [][]string{{"NAME", "HOLDER"}, {"evil", strings.Repeat("x", 1<<20)}, {"unprintable", strings.Repeat("\x00", 1<<20)}}
	for range 1000 {
		rows = append(rows, []string{"job", "me"})
	}
	var out strings.Builder
	if err := Table(&out, rows); err != nil || out.Len() > 2_000_000 {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"wait", "wait", 0}, {"wiat", "wait", 2}, {"wai", "wait", 1}, {"await", "wait", 1}, {"", "why", 3}, {"try", "why", 2},
	} {
		if got := distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) = %d; want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestMessagesDoNotWaitForTheirReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe() // nobody reads from it
		s, end := NewQueue(nil), make(chan struct{})
		go s.Deliver(w, end)
		start := time.Now()
		for range 100 {
			s.Line("hello")
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("100 lines took %v", d)
		}
		s.Flush()
		if d := time.Since(start); d > time.Second {
			t.Errorf("flush took %v; want it to give up after a second", d)
		}
		r.Close()
		close(end)
	})
}
