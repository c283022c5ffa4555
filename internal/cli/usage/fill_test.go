package usage

import (
	"strings"
	"testing"
)

func TestFill(t *testing.T) {
	long := strings.Repeat("word ", 30)
	wrapped := strings.TrimSuffix(strings.Repeat("word ", 20), " ")
	for _, test := range []struct{ name, text, want string }{
		{"lines are joined", "one\ntwo", "one two"},
		{"paragraphs stay apart", "one\n\ntwo", "one\n\ntwo"},
		{"a wide line is broken", long, wrapped + "\n" + strings.TrimSpace(strings.Repeat("word ", 10))},
		{"an item hangs", "Codes:\n  75   " + long + "\n       more", "Codes:\n  75   " + strings.TrimSpace(strings.Repeat("word ", 18)) +
			"\n       " + strings.Repeat("word ", 12) + "more"},
		{"a list", "  - one\n    two\n  - three", "  - one two\n  - three"},
		{"a list at the margin", "- one\n  two", "- one two"},
		{"commands stay", "  holdfast run x\n  " + long + "\nend", "  holdfast run x\n  " + long + "\nend"},
		{"tables stay", "  a  b  c\n  d  e  f", "  a  b  c\n  d  e  f"},
		{"letters count, not bytes", strings.TrimSpace(strings.Repeat("äöüß ", 20)), strings.TrimSpace(strings.Repeat("äöüß ", 20))},
	} {
		if got := fill(test.text); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}
