package term

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The columns of a table are the same with and without colors, and whatever the texts are.
func TestColorsDoNotMoveColumns(t *testing.T) {
	rows := func(colored bool) string {
		g := Grid{Headed: true, Colored: colored, Rows: [][]Cell{
			{{"NAME", Bold}, {"STATE", Bold}, {"WHY", Bold}},
			{{"schöne Grüße", 0}, {"held", Yellow}, {"x\x1b[31m", 0}},
			{{"", 0}, {"free", Green}, {"", Faint}},
		}}
		var b strings.Builder
		if err := g.Print(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	want := "NAME          STATE  WHY\nschöne Grüße  held   x\\x1b[31m\n-             free   -\n"
	if got := rows(false); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	plain := rows(true)
	for _, i := range []Ink{Bold, Faint, Green, Yellow} {
		plain = strings.ReplaceAll(plain, fmt.Sprintf("\x1b[%dm", i), "")
	}
	if plain = strings.ReplaceAll(plain, "\x1b[0m", ""); plain != want {
		t.Errorf("with colors\n%q\nwant\n%q", plain, want)
	}
}

func TestOutputTakesTheFormatsOfItsCommand(t *testing.T) {
	var few, all Format
	cmd := new(cobra.Command)
	cmd.ResetFlags()
	few.Register(cmd)
	if got := cmd.Flags().Lookup("output").Usage; got != "table or json" {
		t.Errorf("usage %q", got)
	}
	for format, ok := range map[string]bool{"table": true, "json": true, "wide": false, "jsonl": false, "name": false, "": false, "Table": false} {
		if err := cmd.Flags().Set("output", format); (err == nil) != ok {
			t.Errorf("%q: %v", format, err)
		}
	}
	cmd.ResetFlags()
	all.Register(cmd, AllFormats...)
	if got := cmd.Flags().Lookup("output").Usage; got != "table, wide, json, jsonl or name" {
		t.Errorf("usage %q", got)
	}
}
