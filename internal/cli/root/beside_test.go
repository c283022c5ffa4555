//go:build unix

package root

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
)

// ranBeside is set in a process of this test that is the command with a program of its own, p.
const ranBeside = "HOLDFAST_TEST_BESIDE"

// codeOf returns the exit code of a process.
func codeOf(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return 0
}

// TestRunsAProgramOfItsOwn runs the test again, since the program takes the place of its process.
func TestRunsAProgramOfItsOwn(t *testing.T) {
	if os.Getenv(ranBeside) != "" {
		root := New("")
		root.AddCommand(newBeside("p", "Do p"))
		root.SetArgs(strings.Split(os.Getenv(ranBeside), " "))
		cmd, err := root.ExecuteC()
		os.Exit(term.Report(os.Stderr, "text", cmd.Name(), err))
	}
	t.Parallel()
	dir := t.TempDir()
	script := "#!/bin/sh\n[ \"$1\" = __complete ] && printf 'one\\tthe first\\n--two\\n:4\\n' && exit\necho \"p: $* $X\"\ncat\nexit 7\n"
	if err := os.WriteFile(filepath.Join(dir, "holdfast-p"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path, args, out string
		code            int
	}{
		{dir, "p --server x y", "p: --server x y of the environment\nstdin", 7},
		{dir, "--server x p y", "p: --server x y of the environment\nstdin", 7},
		{dir, "p --help", "p: --help of the environment\nstdin", 7},
		{dir, "help p show", "p: show --help of the environment\nstdin", 7},
		{dir, "__complete p --t", "one\tthe first\n--two\n:4\n", 0},
		{dir, "help", "  p           Do p\n", 0},
		{dir, "--help", "  p           Do p\n", 0},
		{"/bin", "help", "  run ", 0},
		{"/bin", "p", "holdfast: holdfast-p is not installed: it is neither beside holdfast nor in the PATH\nholdfast: hint: install it from the sources: go install ./cmd/holdfast-p\n", term.ExitNotFound},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRunsAProgramOfItsOwn$")
		cmd.Env = append(os.Environ(), ranBeside+"="+tt.args, "PATH="+tt.path+":/bin:/usr/bin", "X=of the environment")
		cmd.Stdin = strings.NewReader("stdin")
		out, err := cmd.CombinedOutput()
		if got := string(out); codeOf(err) != tt.code || !strings.Contains(got, tt.out) || tt.path == "/bin" && strings.Contains(got, "Do p") {
			t.Errorf("%s: %d, %q; want %d, %q", tt.args, codeOf(err), got, tt.code, tt.out)
		}
	}
}

func TestAProgramThatCannotBeRun(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "holdfast-p"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	err := runBeside("p", nil)
	if f, ok := errors.AsType[*term.Fault](err); !ok || f.Code != term.ExitCannotExec || !strings.HasPrefix(f.Error(), "holdfast-p: exec format error") {
		t.Errorf("%v", err)
	}
	if names, directive := completeBeside("none", nil); names != nil || directive != cobra.ShellCompDirectiveNoFileComp {
		t.Errorf("%q, %d", names, directive)
	}
}
