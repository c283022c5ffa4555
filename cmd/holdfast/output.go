package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// output is the flag -o of the commands whose output programs can read.
type output string

// allFormats are the formats of -o beside table and json, which every command with -o has.
var allFormats = []string{"wide", "jsonl", "name"}

// register adds the flag. The command understands table, json and the other formats given.
func (o *output) register(cmd *cobra.Command, others ...string) {
	*o = "table"
	formats := append([]string{"table"}, others...)
	formats = slices.Insert(formats, min(2, len(formats)), "json") // table, wide, json, jsonl, name
	cmd.Flags().VarP(&outputFlag{o, formats}, "output", "o", orList(formats))
}

// outputFlag is an output with the formats that one command understands.
type outputFlag struct {
	*output
	formats []string
}

func (f *outputFlag) String() string {
	if f.output == nil { // pflag looks at a zero value
		return ""
	}
	return string(*f.output)
}

// Type returns the name of the value in the help.
func (f *outputFlag) Type() string { return "format" }

// Set accepts one of the formats.
func (f *outputFlag) Set(s string) error {
	if !slices.Contains(f.formats, s) {
		return fmt.Errorf("want %s", orList(f.formats))
	}
	*f.output = output(s)
	return nil
}

// orList joins words as in "a, b or c".
func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// A printer prints what a command has found, in the format that the user wants.
type printer struct {
	format    output
	noHeaders bool
	color     colorFlag
}

func (p *printer) register(cmd *cobra.Command) {
	p.format.register(cmd, allFormats...)
	cmd.Flags().BoolVar(&p.noHeaders, "no-headers", false, "print tables without their headings")
	p.color.register(cmd)
}

// A column is one column of a table of items.
type column[T any] struct {
	head string
	wide bool // only with -o wide
	cell func(T) string
	ink  func(T) ink // of the cell; nil: none
}

// A listing is what a command has found, for every format of -o.
type listing[T any] struct {
	items   []T
	columns []column[T]
	name    func(T) string // for -o name
	line    func(T) any    // for -o jsonl: the document of one item
	whole   func() any     // for -o json: the document of all items
}

// show prints l. It never has more of it in memory than a format needs: one item, or all for a table and for
// -o json.
func show[T any](w io.Writer, p *printer, l listing[T]) error {
	buffered := bufio.NewWriter(w)
	var err error
	switch p.format {
	case "json":
		err = document(buffered, l.whole())
	case "jsonl":
		for _, item := range l.items {
			if err = line(buffered, l.line(item)); err != nil {
				break
			}
		}
	case "name":
		for _, item := range l.items {
			fmt.Fprintln(buffered, escape(l.name(item)))
		}
	default:
		t := l.grid(p.format == "wide")
		t.headed, t.colored = !p.noHeaders, p.color.on(w)
		err = t.print(buffered)
	}
	if err != nil {
		return err
	}
	return buffered.Flush()
}

// grid returns the table of the items.
func (l *listing[T]) grid(wide bool) grid {
	columns := slices.DeleteFunc(slices.Clone(l.columns), func(c column[T]) bool { return c.wide && !wide })
	head := make([]cell, len(columns))
	for i, c := range columns {
		head[i] = cell{c.head, bold}
	}
	t := grid{rows: [][]cell{head}}
	for _, item := range l.items {
		row := make([]cell, len(columns))
		for i, c := range columns {
			row[i].text = c.cell(item)
			if c.ink != nil {
				row[i].ink = c.ink(item)
			}
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// table prints rows in columns. The first row is the heading.
func table(w io.Writer, rows [][]string) error {
	t := grid{headed: true}
	for _, row := range rows {
		cells := make([]cell, len(row))
		for i, text := range row {
			cells[i].text = text
		}
		t.rows = append(t.rows, cells)
	}
	return t.print(w)
}

// maxCell is the length of a cell, and of another user's text in a message, in bytes before it is escaped. Without a limit, one node of a megabyte would make
// every row as wide.
const maxCell = 200

// A cell is the text of one cell of a table. An empty one is shown as -.
type cell struct {
	text string
	ink  ink
}

// A grid is a table of cells.
type grid struct {
	rows    [][]cell // the first is the heading, which is printed if headed is true
	headed  bool
	colored bool
}

// print prints the cells in columns that are two spaces apart. Long cells are cut. The colors do not count as text.
func (g *grid) print(w io.Writer) error {
	rows := g.rows
	if !g.headed {
		rows = rows[1:]
	}
	var width []int
	for _, row := range rows {
		for i := range row {
			text := escape(cut(row[i].text, maxCell))
			if text == "" {
				text = "-"
			}
			row[i].text = text
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		b.Reset()
		for i, c := range row {
			if g.colored {
				b.WriteString(c.ink.paint(c.text))
			} else {
				b.WriteString(c.text)
			}
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c.text)+2))
			}
		}
		b.WriteByte('\n')
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}
