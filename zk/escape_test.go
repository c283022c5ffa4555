package zk_test

import (
	"strings"
	"testing"

	"holdfast/zk"
)

// The names are those of nodes that programs have stored: they must not change.
func TestNamesAreEscapedAsEver(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "",
		"plain-Name_1.2~":  "plain-Name_1.2~",
		".":                "%2E",
		"..":               "%2E%2E",
		"...":              "%2E%2E%2E",
		"..a":              "..a",
		"/":                "%2F",
		"/a/b.c":           "%2Fa%2Fb.c",
		"/.":               "%2F.",
		"50% of *,;?#":     "50%25%20of%20%2A%2C%3B%3F%23",
		"$&+=:@!'()":       "$&+=:@%21%27%28%29",
		"\x00\n\x7f\u00fc": "%00%0A%7F%C3%BC",
		"\xff":             "%FF",
	} {
		got := zk.EscapeName(text)
		if got != want {
			t.Errorf("%q: %q; want %q", text, got, want)
		}
		if back, err := zk.UnescapeName(got); back != text || err != nil {
			t.Errorf("%q: %q, %v; want %q", got, back, err, text)
		}
	}
	for _, name := range []string{"%", "a%2", "%GG"} {
		if text, err := zk.UnescapeName(name); err == nil {
			t.Errorf("%q: %q; want an error", name, text)
		}
	}
}

// FuzzEscapeName: whatever the text is, its name is one that the server takes, and leads back to it.
func FuzzEscapeName(f *testing.F) {
	for _, s := range []string{"a", ".", "..", "a/b", "\x00", "\xff\xfe", "%2F", "\u2028", "\ufff0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		name := zk.EscapeName(text)
		if err := zk.ValidatePath("/" + name); text != "" && err != nil || strings.Contains(name, "/") {
			t.Errorf("%q: %q: %v", text, name, err)
		}
		if back, err := zk.UnescapeName(name); back != text || err != nil {
			t.Errorf("%q: %q: %q, %v", text, name, back, err)
		}
	})
}
