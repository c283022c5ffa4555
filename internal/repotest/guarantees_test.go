package repotest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/explanation/guarantees.md claims nothing without a test. Every row of its tables of claims names
// some, and S1 to S8, C1 and L1 are present. All tests named in it exist.
func TestEveryGuaranteeHasATest(t *testing.T) {
	text, err := os.ReadFile("docs/explanation/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := testNames(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
		if !exists[m[1]] {
			t.Errorf("%s does not exist", m[1])
		}
	}
	seen := make(map[string]bool)
	claims := false // the current table has a column of tests
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|"):
			claims = false
			if strings.HasPrefix(line, "- ") {
				seen["list"] = true
			}
		case strings.TrimSpace(cells[len(cells)-1]) == "Tests":
			claims = true
		case claims && !strings.HasPrefix(line, "|--"):
			if !named.MatchString(cells[len(cells)-1]) {
				t.Errorf("this row names no test: %s", line)
			}
			seen[strings.TrimSpace(cells[0])] = true
		case strings.HasPrefix(line, "| A"):
			seen[strings.TrimSpace(cells[0])] = true
		}
	}
	for _, id := range []string{"S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "C1", "L1", "A1", "A2", "A3", "list"} {
		if !seen[id] {
			t.Errorf("%s is missing", id)
		}
	}
}
