package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
)

// commands returns all commands below root, with their paths without the name of the program.
func commands(root *cobra.Command) map[string]*cobra.Command {
	all := make(map[string]*cobra.Command)
	for _, cmd := range root.Commands() {
		all[strings.TrimPrefix(cmd.CommandPath(), "holdfast ")] = cmd
		maps.Copy(all, commands(cmd))
	}
	return all
}

// documentedCodes returns the exit codes that a help text lists.
func documentedCodes(long string) (codes []string) {
	_, list, _ := strings.Cut(long, "Exit codes:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	for _, m := range regexp.MustCompile(`(?m)^  (\d+(?:\+N)?) `).FindAllStringSubmatch(list, -1) {
		codes = append(codes, m[1])
	}
	return codes
}

// triedElsewhere are exit codes that no script can cause, with the tests that do.
var triedElsewhere = map[string]string{
	"bench 1": "TestBenchReportsViolations", // two holders at once
	"top 0":   "TestTopOnATerminal",
	"top 69":  "TestTopOnATerminal",
	"top 77":  "TestTopWithoutPermission",
}

// Every exit code that the help of a command lists is the result of that command in a script.
func TestEveryDocumentedExitCodeIsTried(t *testing.T) {
	known := documentedCodes(term.RunExitCodes() + "\n" + term.OtherExitCodes())
	all := commands(newRoot())
	tried := triedCodes(t, all)
	checked := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, code := range documentedCodes(all[name].Long) {
			if checked++; !slices.Contains(known, code) {
				t.Errorf("%s: the table of exit codes does not have %s", name, code)
			}
			of := name
			if all[name].IsAdditionalHelpTopicCommand() {
				continue
			}
			found := slices.ContainsFunc(tried[of], func(got int) bool {
				if code == "128+N" {
					return got > 128
				}
				return strconv.Itoa(got) == code
			})
			if !found && triedElsewhere[of+" "+code] == "" {
				t.Errorf("no script expects exit code %s of %s; they expect %v", code, name, tried[of])
			}
		}
	}
	if checked < 30 {
		t.Errorf("only %d exit codes found: this test looks in the wrong place", checked)
	}
}

// triedCodes returns the exit codes that the scripts expect of each command.
func triedCodes(t *testing.T, all map[string]*cobra.Command) map[string][]int {
	t.Helper()
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	tried := make(map[string][]int)
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		started := make(map[string]string)
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) > 0 && strings.HasPrefix(words[0], "[") {
				words = words[1:]
			}
			switch {
			case len(words) > 2 && words[0] == "exits":
				if code, err := strconv.Atoi(words[1]); err == nil {
					name := commandOf(all, words[2:])
					tried[name] = append(tried[name], code)
				}
			case len(words) > 2 && words[0] == "start":
				started[words[1]] = commandOf(all, words[2:])
			case len(words) == 3 && words[0] == "finish":
				if code, err := strconv.Atoi(words[2]); err == nil {
					name := started[words[1]]
					tried[name] = append(tried[name], code)
				}
			}
		}
	}
	return tried
}

// commandOf returns the command of holdfast in a command line: the words after the first "holdfast", without
// flags of the root and their values.
func commandOf(all map[string]*cobra.Command, words []string) string {
	i := slices.IndexFunc(words, func(w string) bool { return strings.Trim(w, `'"`) == "holdfast" })
	if i < 0 {
		return ""
	}
	for words = words[i+1:]; len(words) > 1 && strings.HasPrefix(words[0], "--"); words = words[2:] {
	}
	if len(words) == 0 {
		return ""
	}
	name := strings.Trim(words[0], `'"`)
	if len(words) > 1 && all[name+" "+words[1]] != nil {
		return name + " " + words[1]
	}
	return name
}

// A code without a test is found: these are the eyes of the test above.
func TestExitCodesAreFoundInHelp(t *testing.T) {
	got := documentedCodes("text\n\nExit codes:\n  own\n  0   done\n  69  none\n  128+N  signal\n\nMore:\n  77  x\n")
	if fmt.Sprint(got) != "[0 69 128+N]" {
		t.Error(got)
	}
	all := commands(newRoot())
	for line, want := range map[string]string{
		"holdfast ls": "ls", "holdfast --session-timeout 1s status -q job": "status", "sh -c 'holdfast run x": "run",
		"holdfast config view -o json": "config view", "true": "",
	} {
		if got := commandOf(all, strings.Fields(line)); got != want {
			t.Errorf("%s: %q; want %q", line, got, want)
		}
	}
}

// The topic environment has every variable whose name is in the sources.
func TestTopicHasEveryVariable(t *testing.T) {
	topic := conn.EnvironmentTopic(conn.NewFlags().FlagSet)
	var files []string
	for _, pattern := range []string{"*.go", "../../internal/cli/*/*.go"} {
		some, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"(HOLDFAST_[A-Z_]+|[A-Z]+_(?:HOME|DIRECTORY|EPOCH|COLOR))[="]`).FindAllStringSubmatch(string(text), -1) {
			if found++; !regexp.MustCompile(`(?m)^  ` + m[1] + ` `).MatchString(topic) {
				t.Errorf("holdfast help environment does not have %s (%s)", m[1], file)
			}
		}
	}
	if found < 8 {
		t.Errorf("only %d variables found: this test looks in the wrong place", found)
	}
}
