package repotest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hazardsOfTheClient are the reports that concern package zk.
var hazardsOfTheClient = []int{4, 5, 6, 7, 12, 17, 18, 19, 20, 32, 33, 34, 35, 40, 59, 60, 64, 65, 66, 69, 70, 71, 72}

// hazardsOfTheLocks are the reports that concern the recipes.
var hazardsOfTheLocks = []int{1, 2, 3, 8, 9, 10, 11, 13, 14, 15, 16, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 36, 37, 38, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 53, 54, 55, 57, 58, 67, 73}

// testNames returns the names of all test functions, including those of the module in interop.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w+)\(`)
	names := make(map[string]bool)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			names[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// docs/contributing/hazards.md and docs/reference/security.md name, for every report, the test that would fail. Each row is one
// report, the first table is sorted by number, and everything that they name exists.
func TestEveryHazardHasATest(t *testing.T) {
	var text []byte
	for _, name := range []string{"docs/contributing/hazards.md", "docs/reference/security.md"} {
		doc, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, doc...), '\n')
	}
	exists := testNames(t)
	quoted := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	seen := make(map[int]bool)
	last := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| ") || strings.Contains(line, "What went wrong") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 {
			t.Errorf("a row has %d cells: %s", len(cells), line)
			continue
		}
		named := quoted.FindAllStringSubmatch(cells[3], -1)
		if len(named) == 0 {
			t.Errorf("this row names no test: %s", line)
		}
		for _, m := range named {
			if !exists[m[1]] {
				t.Errorf("%s does not exist: %s", m[1], line)
			}
		}
		if n, err := strconv.Atoi(strings.TrimSpace(cells[0])); err == nil {
			if n <= last {
				t.Errorf("hazard %d comes after %d; want them sorted", n, last)
			}
			seen[n], last = true, n
		}
	}
	for _, n := range slices.Concat(hazardsOfTheClient, hazardsOfTheLocks) {
		if !seen[n] {
			t.Errorf("hazard %d is missing", n)
		}
	}
}
