package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// The columns of a table are the same with and without colors, and whatever the texts are.
func TestColorsDoNotMoveColumns(t *testing.T) {
	rows := func(colored bool) string {
		g := grid{headed: true, colored: colored, rows: [][]cell{
			{{"NAME", bold}, {"STATE", bold}, {"WHY", bold}},
			{{"schöne Grüße", 0}, {"held", yellow}, {"x\x1b[31m", 0}},
			{{"", 0}, {"free", green}, {"", faint}},
		}}
		var b strings.Builder
		if err := g.print(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	want := "NAME          STATE  WHY\nschöne Grüße  held   x\\x1b[31m\n-             free   -\n"
	if got := rows(false); got != want {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	plain := rows(true)
	for _, i := range []ink{bold, faint, green, yellow} {
		plain = strings.ReplaceAll(plain, fmt.Sprintf("\x1b[%dm", i), "")
	}
	if plain = strings.ReplaceAll(plain, "\x1b[0m", ""); plain != want {
		t.Errorf("with colors\n%q\nwant\n%q", plain, want)
	}
}

func TestOutputTakesTheFormatsOfItsCommand(t *testing.T) {
	var few, all output
	cmd := new(cobra.Command)
	cmd.ResetFlags()
	few.register(cmd)
	if got := cmd.Flags().Lookup("output").Usage; got != "table or json" {
		t.Errorf("usage %q", got)
	}
	for format, ok := range map[string]bool{"table": true, "json": true, "wide": false, "jsonl": false, "name": false, "": false, "Table": false} {
		if err := cmd.Flags().Set("output", format); (err == nil) != ok {
			t.Errorf("%q: %v", format, err)
		}
	}
	cmd.ResetFlags()
	all.register(cmd, allFormats...)
	if got := cmd.Flags().Lookup("output").Usage; got != "table, wide, json, jsonl or name" {
		t.Errorf("usage %q", got)
	}
}
