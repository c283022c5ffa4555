package term

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Format is the flag -o of the commands whose output programs can read.
type Format string

// AllFormats are the formats of -o beside table and json, which every command with -o has.
var AllFormats = []string{"wide", "jsonl", "name"}

// Register adds the flag. The command understands table, json and the other formats given.
func (o *Format) Register(cmd *cobra.Command, others ...string) {
	*o = "table"
	formats := append([]string{"table"}, others...)
	formats = slices.Insert(formats, min(2, len(formats)), "json") // table, wide, json, jsonl, name
	cmd.Flags().VarP(&outputFlag{o, formats}, "output", "o", OrList(formats))
}

// outputFlag is an output with the formats that one command understands.
type outputFlag struct {
	*Format
	formats []string
}

func (f *outputFlag) String() string {
	if f.Format == nil { // pflag looks at a zero value
		return ""
	}
	return string(*f.Format)
}

// Type returns the name of the value in the help.
func (f *outputFlag) Type() string { return "format" }

// Set accepts one of the formats.
func (f *outputFlag) Set(s string) error {
	if !slices.Contains(f.formats, s) {
		return fmt.Errorf("want %s", OrList(f.formats))
	}
	*f.Format = Format(s)
	return nil
}

// OrList joins words as in "a, b or c".
func OrList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// A Printer prints what a command has found, in the format that the user wants.
type Printer struct {
	Format    Format
	NoHeaders bool
	Color     ColorFlag
}

// Register adds the flags of the printer: -o with all formats, --no-headers and --color.
func (p *Printer) Register(cmd *cobra.Command) {
	p.Format.Register(cmd, AllFormats...)
	cmd.Flags().BoolVar(&p.NoHeaders, "no-headers", false, "print tables without their headings")
	p.Color.Register(cmd)
}

// A Column is one column of a table of items.
type Column[T any] struct {
	Head string
	Wide bool // only with -o wide
	Cell func(T) string
	Ink  func(T) Ink // of the cell; nil: none
}

// A Listing is what a command has found, for every format of -o.
type Listing[T any] struct {
	Items   []T
	Columns []Column[T]
	Name    func(T) string // for -o name
	Line    func(T) any    // for -o jsonl: the document of one item
	Whole   func() any     // for -o json: the document of all items
}

// Show prints l. It never has more of it in memory than a format needs: one item, or all for a table and for
// -o json.
func Show[T any](w io.Writer, p *Printer, l Listing[T]) error {
	buffered := bufio.NewWriter(w)
	var err error
	switch p.Format {
	case "json":
		err = JSON(buffered, l.Whole())
	case "jsonl":
		for _, item := range l.Items {
			if err = JSONLine(buffered, l.Line(item)); err != nil {
				break
			}
		}
	case "name":
		for _, item := range l.Items {
			fmt.Fprintln(buffered, Escape(l.Name(item)))
		}
	default:
		t := l.Grid(p.Format == "wide")
		t.Headed, t.Colored = !p.NoHeaders, p.Color.On(w)
		err = t.Print(buffered)
	}
	if err != nil {
		return err
	}
	return buffered.Flush()
}

// Grid returns the table of the items.
func (l *Listing[T]) Grid(wide bool) Grid {
	columns := slices.DeleteFunc(slices.Clone(l.Columns), func(c Column[T]) bool { return c.Wide && !wide })
	head := make([]Cell, len(columns))
	for i, c := range columns {
		head[i] = Cell{c.Head, Bold}
	}
	t := Grid{Rows: [][]Cell{head}}
	for _, item := range l.Items {
		row := make([]Cell, len(columns))
		for i, c := range columns {
			row[i].Text = c.Cell(item)
			if c.Ink != nil {
				row[i].Ink = c.Ink(item)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// Table prints rows in columns. The first row is the heading.
func Table(w io.Writer, rows [][]string) error {
	t := Grid{Headed: true}
	for _, row := range rows {
		cells := make([]Cell, len(row))
		for i, text := range row {
			cells[i].Text = text
		}
		t.Rows = append(t.Rows, cells)
	}
	return t.Print(w)
}

// MaxCell is the length of a cell, and of another user's text in a message, in bytes before it is escaped. Without a limit, one node of a megabyte would make
// every row as wide.
const MaxCell = 200

// A Cell is the text of one cell of a table. An empty one is shown as -.
type Cell struct {
	Text string
	Ink  Ink
}

// A Grid is a table of cells.
type Grid struct {
	Rows    [][]Cell // the first is the heading, which is printed if Headed is true
	Headed  bool
	Colored bool
}

// Print prints the cells in columns that are two spaces apart. Long cells are cut. The colors do not count as text.
func (g *Grid) Print(w io.Writer) error {
	rows := g.Rows
	if !g.Headed {
		rows = rows[1:]
	}
	var width []int
	for _, row := range rows {
		for i := range row {
			text := Escape(Cut(row[i].Text, MaxCell))
			if text == "" {
				text = "-"
			}
			row[i].Text = text
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
			if g.Colored {
				b.WriteString(c.Ink.Paint(c.Text))
			} else {
				b.WriteString(c.Text)
			}
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c.Text)+2))
			}
		}
		b.WriteByte('\n')
		if _, err := io.WriteString(w, b.String()); err != nil {
			return err
		}
	}
	return nil
}
