package usage

import (
	"strings"
	"unicode/utf8"
)

// A filler breaks the lines of a text anew, so that none is wider than the help.
type filler struct {
	b      strings.Builder
	hang   int // where a line of the present paragraph or item begins, or -1: there is none
	column int
}

// fill breaks the lines of a text anew. The items of a list keep their indent: they are "  - text", or "  NAME  text" with
// two spaces or more before the text. Other indented lines stay as they are, such as commands and tables.
func fill(text string) string {
	f := filler{hang: -1}
	for line := range strings.SplitSeq(text, "\n") {
		indent := len(line) - len(strings.TrimLeft(line, " "))
		if line == "" || indent != f.hang {
			f.begin(line, indent)
		} else {
			f.add(line)
		}
	}
	return strings.TrimPrefix(f.b.String(), "\n")
}

// begin begins a paragraph, an item or a line that stays as it is.
func (f *filler) begin(line string, indent int) {
	f.hang, f.column = -1, 0
	f.b.WriteByte('\n')
	term := line[indent:]
	text, isItem := strings.CutPrefix(term, "- ")
	if !isItem && indent > 0 {
		if _, text, isItem = strings.Cut(term, "  "); isItem {
			text = strings.TrimLeft(text, " ")
			isItem = !strings.Contains(text, "  ") // else it is a row of a table
		}
	}
	switch {
	case line == "", indent > 0 && !isItem:
		f.b.WriteString(line)
		return
	case isItem:
		head := strings.TrimSuffix(line, text)
		f.b.WriteString(head)
		f.hang = utf8.RuneCountInString(head)
	default:
		f.hang, text = 0, line
	}
	f.column = f.hang
	f.add(text)
}

func (f *filler) add(text string) {
	for word := range strings.FieldsSeq(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case f.column == f.hang:
		case f.column+1+n > Width:
			f.b.WriteString("\n" + strings.Repeat(" ", f.hang))
			f.column = f.hang
		default:
			f.b.WriteByte(' ')
			f.column++
		}
		f.b.WriteString(word)
		f.column += n
	}
}
