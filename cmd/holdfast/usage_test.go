package main

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/dashboard"
	"holdfast/internal/cli/mcp"
	"holdfast/internal/cli/tf"
	"holdfast/internal/cli/top"
	"holdfast/internal/cli/usage"
)

// helpOf returns what a command line of root prints, which is a help.
func helpOf(t *testing.T, root *cobra.Command, args ...string) string {
	t.Helper()
	var b bytes.Buffer
	root.SetOut(&b)
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return b.String()
}

// fits fails if a help is larger than a screen of 40 lines of 100 columns.
func fits(t *testing.T, args []string, text string) {
	t.Helper()
	if n := strings.Count(text, "\n"); n > 40 {
		t.Errorf("%q: %d lines, want at most 40", args, n)
	}
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > usage.Width {
			t.Errorf("%q: %d columns, want at most %d: %s", args, n, usage.Width, line)
		}
	}
}

// section returns the indented lines below a heading.
func section(t *testing.T, text, heading string) (lines []string) {
	t.Helper()
	_, below, ok := strings.Cut(text, "\n"+heading+":\n")
	if !ok {
		t.Fatalf("no %s in:\n%s", heading, text)
	}
	for line := range strings.Lines(below) {
		if !strings.HasPrefix(line, "  ") {
			break
		}
		lines = append(lines, strings.TrimSuffix(line, "\n"))
	}
	return lines
}

// short are the commands that have a help on one screen.
var short = []string{"run", "lock", "elect", "shard", "ls", "status", "serve"}

func TestHelpOnOneScreen(t *testing.T) {
	option := regexp.MustCompile(`^  (?:-(\w), |    )--([a-z-]+) `)
	for _, name := range short {
		args := []string{name, "-h"}
		text := helpOf(t, newRoot(), args...)
		fits(t, args, text)
		cmd, _, err := newRoot().Find([]string{name})
		if err != nil {
			t.Fatal(err)
		}
		if flags := section(t, text, "Flags"); len(flags) != 10 {
			t.Errorf("%s -h: %d flags, want 10", name, len(flags))
		} else {
			for _, line := range flags {
				m := option.FindStringSubmatch(line)
				if m == nil {
					t.Errorf("%s -h: %q is no flag", name, line)
				} else if f := cmd.Flags().Lookup(m[2]); f == nil || f.Shorthand != m[1] {
					t.Errorf("%s -h: the command has no flag as in %q", name, line)
				}
			}
		}
		examples := section(t, text, "Examples")
		if len(examples) != 6 {
			t.Errorf("%s -h: %d lines of examples, want 6", name, len(examples))
		}
		for _, line := range examples {
			checkFlags(t, line)
		}
		if n := len(section(t, text, "Exit codes")); n > 3 {
			t.Errorf("%s -h: %d lines of exit codes, want at most 3", name, n)
		}
		long := helpOf(t, newRoot(), name, "--help")
		if !strings.Contains(text, "\nholdfast "+name+" --help: ") || long == text || long != helpOf(t, newRoot(), "help", name) {
			t.Errorf("%s: -h does not name --help, or the two print the same", name)
		}
	}
}

// Every help fits a terminal, also the long one, and those of the other programs.
func TestNoHelpIsWiderThanATerminal(t *testing.T) {
	for _, program := range []func() *cobra.Command{newRoot, mcp.New, dashboard.New, tf.New, top.New} {
		var look func(path []string, cmd *cobra.Command)
		look = func(path []string, cmd *cobra.Command) {
			text := helpOf(t, program(), append(path, "--help")...)
			if examples := cmd.Example; examples != "" { // a command is a line
				text = strings.Replace(text, examples, "", 1)
			}
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > usage.Width {
					t.Errorf("%s %q: %d columns, want at most %d: %s", cmd.Root().Name(), path, n, usage.Width, line)
				}
			}
			for _, sub := range cmd.Commands() {
				if !sub.DisableFlagParsing && sub.Name() != "help" { // that is a program of its own
					look(append(slices.Clip(path), sub.Name()), sub)
				}
			}
		}
		look(nil, program())
	}
}

// checkFlags fails if an example that calls holdfast has a flag that the command lacks.
func checkFlags(t *testing.T, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, "  # ")
	_, call, ok := strings.Cut(line, "holdfast ")
	if !ok {
		return
	}
	cmd, args, err := newRoot().Find(strings.Fields(strings.TrimSuffix(call, `\`)))
	if err == nil {
		err = cmd.ParseFlags(args)
	}
	if err != nil {
		t.Errorf("%q: %v", line, err)
	}
}

func TestEveryFlagIsInAGroup(t *testing.T) {
	root := newRoot()
	for _, name := range append([]string{""}, short...) {
		cmd, _, err := root.Find(strings.Fields(name))
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range usage.Groups(cmd) {
			if g.Title != usage.Other {
				continue
			}
			for _, f := range g.Flags {
				if f.Name != "version" {
					t.Errorf("%s --%s is in no group of internal/cli/usage/groups.go", name, f.Name)
				}
			}
		}
	}
}

// holdfast alone prints all commands, in four groups, at most six words each.
func TestTheOverview(t *testing.T) {
	text := helpOf(t, newRoot())
	fits(t, nil, text)
	if text != helpOf(t, newRoot(), "-h") || text != helpOf(t, newRoot(), "help") {
		t.Error("holdfast, holdfast -h and holdfast help differ")
	}
	var listed []string
	for _, area := range []string{"Run under a lock", "Look", "Act", "Serve and set up"} {
		for _, line := range section(t, text, area) {
			words := strings.Fields(line)
			listed = append(listed, words[0])
			if len(words)-1 > 6 {
				t.Errorf("%q: more than six words", line)
			}
		}
	}
	for _, cmd := range newRoot().Commands() {
		if beside := cmd.DisableFlagParsing; !beside && cmd.IsAvailableCommand() && cmd.Name() != "help" && !slices.Contains(listed, cmd.Name()) {
			t.Errorf("%s is in none of the four groups", cmd.Name())
		}
	}
	long := helpOf(t, newRoot(), "--help")
	for _, want := range []string{"\nConnection:\n", "--namespace", "\n  run         Run a command while holding a lock\n", "\n  holdfast help durations"} {
		if !strings.Contains(long, want) {
			t.Errorf("holdfast --help has no %q:\n%s", want, long)
		}
	}
}

// -h of a command without a short help is its whole help.
func TestTheOtherCommandsHaveOneHelp(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		if slices.Contains(short, cmd.Name()) || cmd.DisableFlagParsing || !cmd.IsAvailableCommand() {
			continue
		}
		if text := helpOf(t, newRoot(), cmd.Name(), "-h"); text != helpOf(t, newRoot(), cmd.Name(), "--help") || !strings.Contains(text, "Usage:\n") {
			t.Errorf("%s -h and --help differ, or have no usage", cmd.Name())
		}
	}
}

// The values of -h are those of a switch.
func TestAWrongValueOfShortHelp(t *testing.T) {
	root := newRoot()
	root.SetArgs([]string{"run", "-h=maybe"})
	if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "takes no value") {
		t.Errorf("%v", err)
	}
}
