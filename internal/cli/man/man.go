// Package man writes manual pages and tables of flags from the help of commands.
package man

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/term"
	"holdfast/internal/cli/usage"
	"holdfast/internal/cli/version"
)

// The manual pages are written from the help. The generator of cobra takes the help for Markdown, and would
// run the lists of exit codes together into paragraphs.

// New returns the hidden command that writes the manual pages of all commands of its root.
func New() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages into a directory",
		Hidden: true,
		Long: `man writes one manual page for each command (section 1) and each topic (section 7) into DIR. Their date
is SOURCE_DATE_EPOCH, or else that of the commit that holdfast was built from.

Exit codes:
  0   the pages are written
  2   wrong command line
  78  DIR cannot be written, or SOURCE_DATE_EPOCH is wrong`,
		Example: `  holdfast man build/man`,
		Args:    term.Operands("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			date, err := manDate()
			if err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return term.Misconfigured("give a directory that can be written", "man: %w", err)
			}
			root := cmd.Root()
			for _, c := range Commands(root) {
				name := pageName(c)
				path := filepath.Join(args[0], fmt.Sprintf("%s.%d", name, section(c)))
				if err := os.WriteFile(path, []byte(manPage(c, date)), 0o666); err != nil {
					return term.Misconfigured("give a directory that can be written", "man: %w", err)
				}
			}
			return nil
		},
	}
}

// manDate returns the date of the pages. It does not depend on the time of the call.
func manDate() (string, error) {
	if text := os.Getenv("SOURCE_DATE_EPOCH"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds < 0 {
			return "", term.Misconfigured("give the seconds since 1970", "SOURCE_DATE_EPOCH=%q is not a number of seconds", term.Cut(text, 40))
		}
		return time.Unix(seconds, 0).UTC().Format(time.DateOnly), nil
	}
	if date, _, ok := strings.Cut(version.Info().Date, "T"); ok {
		return date, nil
	}
	return "1970-01-01", nil
}

// Commands returns cmd and the commands and topics below it.
func Commands(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			all = append(all, Commands(sub)...)
		}
	}
	return all
}

func pageName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func section(cmd *cobra.Command) int {
	if cmd.IsAdditionalHelpTopicCommand() {
		return 7
	}
	return 1
}

func manPage(cmd *cobra.Command, date string) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".\\\" Written by holdfast man.\n.TH %s %d %s %s\n", roff(strings.ToUpper(pageName(cmd))), section(cmd), date, roff(`"holdfast `+version.Info().Version+`"`))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(cmd)), roff(cmd.Short))
	if section(cmd) == 1 {
		fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.CommandPath()))
		if _, operands, ok := strings.Cut(cmd.Use, " "); ok {
			b.WriteString(roff(operands) + "\n")
		} else if cmd.HasSubCommands() {
			b.WriteString("COMMAND\n")
		}
	}
	description, codes := exitSection(cmd.Long)
	if description == "" {
		description = cmd.Short + "."
	}
	b.WriteString(".SH DESCRIPTION\n")
	roffText(&b, description)
	if codes != "" {
		b.WriteString(".SH EXIT STATUS\n")
		roffText(&b, codes)
	}
	if subs := subcommands(cmd); len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(sub.CommandPath()), roff(sub.Short))
		}
	}
	if groups := usage.Groups(cmd); len(groups) > 0 {
		b.WriteString(".SH OPTIONS\n")
		for _, g := range groups {
			if g.Title != usage.Other {
				fmt.Fprintf(&b, ".SS %s\n", roff(g.Title))
			}
			for _, f := range g.Flags {
				roffFlag(&b, f)
			}
		}
	}
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n")
		verbatim(&b, strings.Split(cmd.Example, "\n"))
	}
	b.WriteString(".SH SEE ALSO\n" + strings.Join(seeAlso(cmd), "\n") + "\n")
	return b.String()
}

// exitSection takes the list of exit codes out of a help text.
func exitSection(long string) (rest, codes string) {
	before, codes, ok := strings.Cut(long, "Exit codes:\n")
	if !ok {
		return long, ""
	}
	codes, after, _ := strings.Cut(codes, "\n\n")
	return strings.TrimSpace(before + after), codes
}

func subcommands(cmd *cobra.Command) (subs []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			subs = append(subs, sub)
		}
	}
	return subs
}

// seeAlso returns references to the page above, those beside it and those below it.
func seeAlso(cmd *cobra.Command) (also []string) {
	var others []*cobra.Command
	if cmd.HasParent() {
		others = append(others, cmd.Parent())
		for _, c := range cmd.Parent().Commands() {
			if section(c) == 7 && c != cmd {
				others = append(others, c)
			}
		}
	} else {
		for _, c := range Commands(cmd) {
			if c != cmd {
				others = append(others, c)
			}
		}
	}
	if len(others) == 0 { // a program that holdfast runs by name
		return []string{".BR holdfast (1)"}
	}
	for _, c := range others {
		also = append(also, fmt.Sprintf(".BR %s (%d),", roff(pageName(c)), section(c)))
	}
	also[len(also)-1] = strings.TrimSuffix(also[len(also)-1], ",")
	return also
}

func roffFlag(b *strings.Builder, f *pflag.Flag) {
	kind, text := pflag.UnquoteUsage(f)
	b.WriteString(".TP\n")
	if f.Shorthand != "" {
		fmt.Fprintf(b, "\\fB%s\\fR, ", roff("-"+f.Shorthand))
	}
	fmt.Fprintf(b, "\\fB%s\\fR", roff("--"+f.Name))
	if kind != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", roff(strings.TrimSuffix(kind, "Array")))
	}
	if standard := DefaultOf(f); standard != "" {
		text += " (default " + standard + ")"
	}
	b.WriteString("\n" + roff(text) + "\n")
}

// DefaultOf returns the default of a flag, or "" if it is not worth showing.
func DefaultOf(f *pflag.Flag) string {
	standard := f.DefValue
	if standard == "false" || standard == "[]" || f.Value.Type() != "string" && standard == "0" || standard == "0s" {
		return ""
	}
	return standard
}

var tagged = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^  (\S+(?: \S+)*)  +(\S.*)$`) })

// roffText writes a help text. Lines without indentation are paragraphs. Indented lines are a list, if each
// begins with two spaces and one of them has a second column. Others stay as they are.
func roffText(b *strings.Builder, text string) {
	lines := strings.Split(text, "\n")
	for i, j := 0, 0; i < len(lines); i = max(j, i+1) {
		indented := strings.HasPrefix(lines[i], "  ")
		for j = i; j < len(lines) && lines[j] != "" && strings.HasPrefix(lines[j], "  ") == indented; {
			j++
		}
		switch group := lines[i:j]; {
		case j == i: // an empty line
		case !indented:
			if i > 0 {
				b.WriteString(".PP\n")
			}
			for _, line := range group {
				b.WriteString(roff(line) + "\n")
			}
		case isList(group):
			for k, line := range group {
				if m := tagged().FindStringSubmatch(line); m != nil {
					fmt.Fprintf(b, ".TP 8\n.B %s\n%s\n", roff(m[1]), roff(m[2]))
					continue
				}
				if i+k > 0 {
					b.WriteString(".PP\n")
				}
				b.WriteString(roff(strings.TrimSpace(line)) + "\n")
			}
		default:
			verbatim(b, group)
		}
	}
}

func isList(lines []string) (columns bool) {
	for _, line := range lines {
		if strings.HasPrefix(line, "   ") {
			return false
		}
		columns = columns || tagged().MatchString(line)
	}
	return columns
}

func verbatim(b *strings.Builder, lines []string) {
	b.WriteString(".IP\n.nf\n")
	for _, line := range lines {
		b.WriteString(roff(strings.TrimPrefix(line, "  ")) + "\n")
	}
	b.WriteString(".fi\n")
}

var roffEscapes = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// roff escapes a line of text. A line must not begin with a dot, which would make it a request.
func roff(line string) string {
	var b strings.Builder
	for _, r := range roffEscapes.Replace(line) {
		if r < 128 {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	if text := b.String(); strings.HasPrefix(text, ".") {
		return `\&` + text
	}
	return b.String()
}
