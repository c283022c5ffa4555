//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needPrograms skips the test if a program or a file is missing. In CI it fails.
func needPrograms(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		_, err := exec.LookPath(name)
		if filepath.IsAbs(name) {
			_, err = os.Stat(name)
		}
		if err != nil && os.Getenv("CI") == "true" {
			t.Fatalf("install %s", name)
		} else if err != nil {
			t.Skipf("needs %s", name)
		}
	}
}

// pages writes the manual pages and returns their directory.
func pages(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "man")
	root := newRoot()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Neither the order of maps nor the clock changes the pages.
func TestManualPagesAreTheSameEachTime(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1763900000")
	first, second := pages(t), pages(t)
	files, err := filepath.Glob(filepath.Join(first, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		one, err1 := os.ReadFile(path)
		two, err2 := os.ReadFile(filepath.Join(second, filepath.Base(path)))
		if err1 != nil || err2 != nil || string(one) != string(two) {
			t.Errorf("%s: two different pages, %v, %v", path, err1, err2)
		}
		if !strings.Contains(string(one), " 2025-11-23 ") {
			t.Errorf("%s: wrong date: %.200s", path, one)
		}
	}
	for _, name := range []string{"holdfast.1", "holdfast-run.1", "holdfast-config-view.1", "holdfast-exit-codes.7"} {
		if _, err := os.Stat(filepath.Join(first, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(first, "holdfast-man.1")); err == nil {
		t.Error("a hidden command has a page")
	}
}

// mandoc and groff have nothing to complain about.
func TestManualPagesAreWellFormed(t *testing.T) {
	needPrograms(t, "mandoc", "groff")
	t.Setenv("SOURCE_DATE_EPOCH", "1763900000")
	files, err := filepath.Glob(filepath.Join(pages(t), "*"))
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		if out, err := exec.Command("mandoc", "-Tlint", "-Wwarning", path).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
		if out, err := exec.Command("groff", "-man", "-Tutf8", "-ww", "-z", path).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// A manual page shows the help, in characters that can be copied into a shell.
func TestManualPageReads(t *testing.T) {
	needPrograms(t, "mandoc")
	dir := pages(t)
	read := func(name string) string {
		out, err := exec.Command("mandoc", "-Tutf8", "-Owidth=100", filepath.Join(dir, name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for i := 0; i < len(out); i++ { // without overstriking
			if i+1 < len(out) && out[i+1] == '\b' {
				i++
				continue
			}
			b.WriteByte(out[i])
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	for name, want := range map[string][]string{
		"holdfast-run.1": {
			"holdfast-run - Run a command while holding a lock", "EXIT STATUS the command's own, or 128+N if signal N killed it 35 deadlock:",
			"-w, --wait duration wait at most", `--why "schema 42" db/migrate -- ./migrate --all`, "the default is 1m (default 40s)",
		},
		"holdfast-ls.1":         {"≤ marks an upper bound"},
		"holdfast-config.1":     {"session-timeout: 30s profiles: laptop:", "1. the command line 2. the environment"},
		"holdfast.1":            {"holdfast config Configuration files", "holdfast-config-view(1)", "holdfast-durations(7)"},
		"holdfast-completion.1": {`"${fpath[1]}/_holdfast"`, "> ~/.config/fish/"},
	} {
		got := read(name)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s does not have %q:\n%s", name, text, got)
			}
		}
	}
}
