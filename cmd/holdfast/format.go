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

// apiVersion stands in every JSON document; within it fields are only added.
const apiVersion = "holdfast/v1"

// escape makes text that others wrote (names, owners, reasons) safe for a terminal: it
// could move the cursor, set the title or hide what is printed.
func escape(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !printable(r) }) < 0 && strings.ToValidUTF8(s, "") == s {
		return s
	}
	quoted := strconv.Quote(s) // escapes what is not printable, bytes that are no UTF-8, " and \
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// printable leaves out also the characters that reorder what stands around them.
func printable(r rune) bool { return unicode.IsPrint(r) }

// age is how long ago since is: by the server's clock, so it may lie in our future.
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

// table prints rows in columns, the first row being the heading.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			if cell == "" {
				cell = "-"
			}
			cells[i] = escape(cell)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	return tw.Flush()
}

// document prints v as indented JSON. What a terminal may take for a command is
// escaped also where JSON itself would allow it.
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
