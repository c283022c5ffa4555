package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/dashboard"
	"holdfast/internal/cli/man"
	"holdfast/internal/cli/mcp"
	"holdfast/internal/cli/tf"
	"holdfast/internal/cli/top"
	"holdfast/internal/cli/usage"
)

var writeReference = flag.Bool("write", false, "write docs/reference/cli.md from the help")

const (
	referenceFile = "../../docs/reference/cli.md"
	referenceMark = "<!-- The rest is written by: go test ./cmd/holdfast -run TestReferenceIsTheHelp -write -->\n"
)

// programs are those that the command runs by name. The reference has them as commands.
var programs = map[string]func() *cobra.Command{"mcp": mcp.New, "tf": tf.New, "top": top.New, "ui": dashboard.New}

// The reference of the command line is made from the help, so the two agree.
func TestReferenceIsTheHelp(t *testing.T) {
	text, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	above, got, ok := strings.Cut(string(text), referenceMark)
	if !ok {
		t.Fatalf("%s has no line %s", referenceFile, referenceMark)
	}
	want := reference(newRoot())
	if *writeReference {
		if err := os.WriteFile(referenceFile, []byte(above+referenceMark+want), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want {
		t.Errorf("%s differs from the help. Run: go test ./cmd/holdfast -run TestReferenceIsTheHelp -write", referenceFile)
	}
}

// reference returns the help of all commands as Markdown.
func reference(root *cobra.Command) string {
	var b strings.Builder
	clients := conn.NewFlags().FlagSet
	fmt.Fprintf(&b, "\n## holdfast\n\n```text\n%s\n```\n", root.Long)
	for _, g := range usage.Groups(root) {
		if g.Title != usage.Other { // --version
			flagTable(&b, g)
		}
	}
	var all []*cobra.Command
	for _, cmd := range man.Commands(root)[1:] {
		if of, ok := programs[cmd.Name()]; ok && cmd.DisableFlagParsing {
			all = append(all, slices.DeleteFunc(man.Commands(of()), func(c *cobra.Command) bool { return c.Name() == "man" })...)
		} else if !cmd.IsAdditionalHelpTopicCommand() {
			all = append(all, cmd)
		}
	}
	for _, cmd := range all {
		line := strings.TrimSuffix(cmd.CommandPath(), cmd.Name()) + cmd.Use
		fmt.Fprintf(&b, "\n## %s\n\n`%s`\n\n%s.", cmd.CommandPath(), line, cmd.Short)
		if len(cmd.Aliases) > 0 {
			fmt.Fprintf(&b, " Another name is `%s`.", strings.Join(cmd.Aliases, "`, `"))
		}
		b.WriteString("\n")
		if cmd.Long != "" {
			fmt.Fprintf(&b, "\n```text\n%s\n```\n", cmd.Long)
		}
		if cmd.Example != "" {
			b.WriteString("\nExamples:\n\n```text\n")
			for line := range strings.Lines(cmd.Example) {
				b.WriteString(strings.TrimPrefix(line, "  "))
			}
			b.WriteString("\n```\n")
		}
		if cmd.CommandPath() == "holdfast serve" {
			b.WriteString("\nThe flags are in [Settings of holdfast serve](serve.md).\n")
			continue
		}
		shared := false
		for _, g := range usage.Groups(cmd) {
			own := slices.DeleteFunc(g.Flags, func(f *pflag.Flag) bool { return clients.Lookup(f.Name) != nil })
			shared = shared || len(own) < len(g.Flags)
			if g.Flags = own; len(own) > 0 {
				flagTable(&b, g)
			}
		}
		if shared {
			b.WriteString("\nThe flags of [holdfast](#holdfast) apply, too.\n")
		}
	}
	for _, topic := range root.Commands() {
		if topic.IsAdditionalHelpTopicCommand() {
			fmt.Fprintf(&b, "\n## holdfast help %s\n\n```text\n%s\n```\n", topic.Name(), topic.Long)
		}
	}
	return b.String()
}

func flagTable(b *strings.Builder, g usage.Group) {
	fmt.Fprintf(b, "\n%s:\n\n| Flag | Default | |\n|---|---|---|\n", g.Title)
	for _, f := range g.Flags {
		kind, text := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + strings.TrimSuffix(kind, "Array")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", name, man.DefaultOf(f), strings.ReplaceAll(text, "|", `\|`))
	}
}

func TestHelpShowsNoDefaultOfZero(t *testing.T) {
	for _, cmd := range newRoot().Commands() {
		if usage := cmd.Flags().FlagUsages(); strings.Contains(usage, "(default 0") {
			t.Errorf("%s: a default of zero in its help:\n%s", cmd.Name(), usage)
		}
	}
}
