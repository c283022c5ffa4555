package mutants

import (
	"bufio"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// untried has the tests that a document names and no seeded bug tries. A test that gets a bug
// has to leave the list. A claim that gets a new test needs a bug for it, so the list only
// shrinks, and its length is here.
const (
	untried       = "untried.txt"
	untriedLength = 6
)

// Every test that docs/contributing/evidence.md or docs/contributing/hazards.md names fails with at least one of the
// bugs, or is in the list of those that wait for one.
func TestEveryNamedTestHasABug(t *testing.T) {
	tried := make(map[string]bool)
	for _, m := range mutants() {
		for _, name := range m.tests {
			tried[name] = true
		}
	}
	missing := make(map[string]string) // the document, by test
	for _, document := range []string{"docs/contributing/hazards.md", "docs/contributing/evidence.md"} {
		for _, name := range namedIn(t, document) {
			if !tried[name] {
				missing[name] = document
			}
		}
	}
	waiting := readUntried(t)
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if !waiting[name] {
			t.Errorf("%s names %s, and no seeded bug tries it: add a bug that breaks the claim and that the test finds", missing[name], name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		switch {
		case tried[name]:
			t.Errorf("%s has a seeded bug: remove it from %s", name, untried)
		case missing[name] == "":
			t.Errorf("no document names %s: remove it from %s", name, untried)
		}
	}
	if n := len(waiting); n != untriedLength {
		t.Errorf("%s has %d tests, not %d: it may only shrink; when it has, lower untriedLength", untried, n, untriedLength)
	}
}

// namedIn returns the tests that a document names.
func namedIn(t *testing.T, document string) (names []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(document)))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	if len(names) == 0 {
		t.Fatalf("%s names no tests", document)
	}
	return names
}

// readUntried reads the list. Lines that begin with # are comments.
func readUntried(t *testing.T) map[string]bool {
	t.Helper()
	f, err := os.Open(untried)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := make(map[string]bool)
	last := ""
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name := strings.TrimSpace(lines.Text())
		switch {
		case name == "":
			last = ""
		case strings.HasPrefix(name, "#"):
		case name <= last:
			t.Errorf("%s: %s stands behind %s: the list is sorted", untried, name, last)
		default:
			names[name], last = true, name
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return names
}
