package repotest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The tests of interop that test.sh leaves to `prove` exist. A name that is misspelt there would be in
// neither list of what takes long, and the first run would take longer without a word.
func TestLongTestsExist(t *testing.T) {
	script, err := os.ReadFile("test.sh")
	if err != nil {
		t.Fatal(err)
	}
	long := regexp.MustCompile(`(?m)^long='\^\(([^']*)\)\$'$`).FindSubmatch(script)
	if long == nil {
		t.Fatal("test.sh has no line long='^(…)$'")
	}
	files, err := filepath.Glob("interop/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(text, -1) {
			have = append(have, string(m[1]))
		}
	}
	for name := range strings.SplitSeq(string(long[1]), "|") {
		if !slices.Contains(have, name) {
			t.Errorf("interop has no test %s, which test.sh names", name)
		}
	}
	// What one tier leaves out, the other runs.
	for _, want := range []string{`-skip="$long"`, `-run="$long"`} {
		if strings.Count(string(script), want) != 1 {
			t.Errorf("test.sh does not say %s once", want)
		}
	}
}

// The script is one of a POSIX shell, and says what is wrong with its arguments.
func TestScriptSaysItsUsage(t *testing.T) {
	out, err := exec.Command("sh", "test.sh", "everything").CombinedOutput()
	if want := "usage: sh test.sh [check|quick|test|beside|contrib|prove|api|vuln]...\n"; err == nil || string(out) != want {
		t.Errorf("%q, %v; want %q", out, err, want)
	}
}
