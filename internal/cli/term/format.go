package term

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"holdfast/internal/duration"
)

// APIVersion is in every JSON document. Within a version, fields are only added.
const APIVersion = "holdfast/v1"

// Escape makes text of other users (names, owners, reasons) safe for a terminal. Control characters
// could move the cursor, set the title or hide other text.
func Escape(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !Printable(r) }) < 0 && strings.ToValidUTF8(s, "") == s {
		return s
	}
	quoted := strconv.Quote(s) // escapes unprintable characters, invalid UTF-8, " and \
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// Printable reports whether r is printable. Characters that reorder the text around them are not.
func Printable(r rune) bool { return unicode.IsPrint(r) }

// Age returns the time from since to now. since is by the server's clock, so it may be later than now.
func Age(since, now time.Time) string { return duration.Age(now.Sub(since)) }

// JSON prints v as indented JSON. It escapes all unprintable characters, also where JSON would
// allow them.
func JSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, visible(text))
	return err
}

// JSONLine prints v as JSON in one line.
func JSONLine(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, visible(text))
	return err
}

// visible escapes the unprintable characters of a JSON text and adds the end of the line.
func visible(text []byte) string {
	var b strings.Builder
	b.Grow(len(text) + 1)
	for _, r := range string(text) {
		switch {
		case r == '\n' || Printable(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('\n')
	return b.String()
}

// Count returns the number and the noun, with an s for more than one.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
