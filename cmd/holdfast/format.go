package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
)

// apiVersion is in every JSON document. Within a version, fields are only added.
const apiVersion = "holdfast/v1"

// escape makes text of other users (names, owners, reasons) safe for a terminal. Control characters
// could move the cursor, set the title or hide other text.
func escape(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !printable(r) }) < 0 && strings.ToValidUTF8(s, "") == s {
		return s
	}
	quoted := strconv.Quote(s) // escapes unprintable characters, invalid UTF-8, " and \
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// printable reports whether r is printable. Characters that reorder the text around them are not.
func printable(r rune) bool { return unicode.IsPrint(r) }

// age returns the time from since to now. since is by the server's clock, so it may be later than now.
func age(since, now time.Time) string {
	d := max(now.Sub(since), 0)
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// maxCell is the length of a cell in bytes, before it is escaped. Without a limit, one node of a megabyte would make
// every row as wide.
const maxCell = 200

// table prints rows in columns, with long cells cut. The first row is the heading.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cell == "" {
				cell = "-"
			}
			cells[i] = escape(cut(cell, maxCell))
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// document prints v as indented JSON. It escapes all unprintable characters, also where JSON would
// allow them.
func document(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, r := range string(text) {
		switch {
		case r == '\n' || printable(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('\n')
	_, err = io.WriteString(w, b.String())
	return err
}
