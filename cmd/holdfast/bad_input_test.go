//go:build unix

package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/program"
	"holdfast/internal/cli/term"
)

// badValues are values that only a flag with free text can take.
var badValues = map[string]string{
	"100 kB":        strings.Repeat("x", 100_000),
	"100 kB of NUL": strings.Repeat("\x00", 100_000),
	"huge":          strings.Repeat("9", 30),
	"wrong unit":    "5 parsecs",
	"NUL":           "a\x00b",
	"lines":         "a\nb\r\n",
	"escape":        "\x1b]0;title\x07\x1b[31mred",
	"not UTF-8":     "\xff\xfe\x80",
	"right to left": "a\u202eb",
}

// badNumbers are further values that no flag with a number or a duration can take.
var badNumbers = map[string]string{"negative": "-7", "empty": "", "not a number": "NaN", "hexadecimal": "0xffffffffffffffffff"}

// An attempt is one command line with one bad value.
type attempt struct {
	cmd   *cobra.Command
	what  string // the flag with its dashes, or the argument
	value string
	args  []string
	text  bool // the flag takes free text, so the value may be accepted
}

// operandsOf returns the words of a usage line behind the command: literal ones, and names of arguments in capitals.
func operandsOf(use string) (words []string) {
	for _, word := range strings.Fields(regexp.MustCompile(`--\w+ N\b`).ReplaceAllString(use, ""))[1:] {
		if word = strings.Trim(word, "[]."); word != "" && word != "flags" && word != "--" && word != "or" && word != "ARG" {
			words = append(words, word)
		}
	}
	return words
}

// needed are the flags without which a command refuses every command line.
var needed = map[string][]string{"shard": {"--count=2"}, "unlock": {"--id=x"}, "break": {"--token=1"}, "revoke": {"--token=1"}}

// attempts returns a command line for each flag and argument of each command, and each bad value. The rest of the
// line is right, except for the server: its URL is refused when all else is accepted, before anything is done.
func attempts() (all []attempt) {
	commands := commands(newRoot())
	for _, path := range slices.Sorted(maps.Keys(commands)) {
		cmd := commands[path]
		if cmd.IsAdditionalHelpTopicCommand() {
			continue
		}
		line := strings.Fields(path)
		client := cmd.Flags().Lookup("server") != nil
		if client {
			line = append(line, "--server=http://refused")
		}
		line = append(line, needed[path]...)
		operands := operandsOf(cmd.Use)
		add := func(what, value string, text bool, args ...string) {
			all = append(all, attempt{cmd, what, value, append(slices.Clone(line), args...), text})
		}
		rest := slices.Clone(operands)
		for i, word := range rest {
			if strings.ToUpper(word) == word {
				rest[i] = cmp.Or(map[string]string{"SESSION": "0x1", "VERSION": "1"}[word], "x")
			}
		}
		if path == "tf" {
			rest = append([]string{"--"}, rest...) // a command needs it, since there are subcommands
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			shared := f.Name == "help" || client && path != "ls" && conn.NewFlags().FlagSet.Lookup(f.Name) != nil
			if shared {
				return // ls has it, too
			}
			values := maps.Clone(badValues)
			text := f.Value.Type() == "string" || f.Value.Type() == "stringArray"
			if !text {
				maps.Copy(values, badNumbers)
			}
			before := map[bool]string{true: "--data-dir=/dev/null/none"}[path == "serve"]
			if f.Name == "data-dir" {
				before = "--listen=http://refused"
			}
			for _, name := range slices.Sorted(maps.Keys(values)) {
				args := []string{"--" + f.Name + "=" + values[name]}
				if before != "" {
					args = append(args, before)
				}
				add("--"+f.Name, values[name], text, append(args, rest...)...)
			}
		})
		for i, word := range operands {
			if word == "COMMAND" && path != "help" || strings.ToUpper(word) != word {
				continue
			}
			for _, name := range slices.Sorted(maps.Keys(badValues)) {
				args := slices.Clone(rest)
				args[i] = badValues[name]
				add(word, badValues[name], true, args...)
			}
		}
	}
	return all
}

// try runs a command line in this process, and returns what it prints, and its exit code.
func try(t *testing.T, args []string) (string, int) {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stdout, stderr := os.Stdout, os.Stderr
	os.Stdout, os.Stderr = f, f
	defer func() { os.Stdout, os.Stderr = stdout, stderr }()
	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	code := term.Report(os.Stderr, program.FormatOf(cmd), cmd.Name(), err)
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text), code
}

// quotable reports whether a message may quote the value instead of the name: that of an argument, a lock or a path.
func (a *attempt) quotable() bool {
	return !strings.HasPrefix(a.what, "--") || a.what == "--also" || a.what == "--data-dir"
}

// named reports whether a message names the flag or the argument, or quotes a value that may be quoted.
func (a *attempt) named(out string) bool {
	words := strings.ReplaceAll(strings.TrimSuffix(strings.TrimPrefix(a.what, "--"), "s"), "-", " ")
	quoted := strconv.Quote(a.value)
	quoted = quoted[1:min(20, len(quoted)-1)]
	return strings.Contains(out, a.what) || strings.Contains(strings.ReplaceAll(out, "-", " "), strings.ToLower(words)) || a.quotable() && quoted != "" && strings.Contains(out, quoted) ||
		strings.HasPrefix(a.what, "--tls-") && strings.Contains(out, "--tls- flags")
}

// Each flag and each argument of each command gets values that it cannot take. The error is short, has no control
// characters, names the flag or the argument, and says what to do.
func TestBadInputIsExplained(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	home := t.TempDir()
	t.Chdir(home)
	for name, value := range map[string]string{
		"HOME": home, "XDG_STATE_HOME": filepath.Join(home, "state"), "XDG_CONFIG_HOME": "", "HOLDFAST_CONFIG": "/dev/null", "HOLDFAST_SERVER": "",
	} {
		t.Setenv(name, value)
	}
	all := attempts()
	for _, a := range all {
		out, code := try(t, a.args)
		complain := func(format string, args ...any) {
			t.Errorf("%s, %s %.40q: %s\n  %d: %.300q", a.cmd.CommandPath(), a.what, a.value, fmt.Sprintf(format, args...), code, out)
		}
		accepted := strings.Contains(out, "http://refused") || strings.Contains(out, "/dev/null/none") ||
			strings.Contains(out, "back up x: stat x: ") || strings.Contains(out, "must be a terminal") ||
			strings.Contains(out, "the password has 0 bytes") || code == 0 // the DIR of backup, which is no store
		if len(out) > 2000 {
			complain("%d bytes", len(out))
		}
		if strings.Contains(out, strings.Repeat("x", 251)) {
			complain("more than 250 bytes of what was typed")
		}
		if bad := strings.IndexFunc(out, func(r rune) bool { return r != '\n' && !term.Printable(r) }); bad >= 0 || !utf8.ValidString(out) {
			complain("a control character at %d", bad)
		}
		if codes := documentedCodes(a.cmd.Long); len(codes) > 0 && !slices.Contains(codes, strconv.Itoa(code)) {
			complain("the help does not have the exit code; it has %v", codes)
		} else if len(codes) == 0 && code > 2 && code != term.ExitConfig {
			complain("exit code")
		}
		switch {
		case accepted && !a.text && a.value != "" && a.value != badNumbers["negative"]: // a list may be empty, and the server is looked at before some ranges
			complain("accepted")
		case accepted:
		case !a.named(out):
			complain("it is not named")
		case !regexp.MustCompile(`want|give|hint:|must|choose|write|correct|needs|negative|invalid argument\n|file name too long|no such file|(is|not) a directory|cannot contain`).MatchString(out):
			complain("what to do is missing")
		}
	}
	t.Logf("%d command lines", len(all))
	if len(all) < 1000 {
		t.Errorf("only %d command lines: this test looks in the wrong place", len(all))
	}
}
