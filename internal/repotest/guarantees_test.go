package repotest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// docs/explanation/guarantees.md claims nothing without a test: docs/contributing/evidence.md has a row for every claim,
// and names tests that exist. S1 to S8, C1 and L1 are present, and a list of what cannot be promised.
func TestEveryGuaranteeHasATest(t *testing.T) {
	promises, err := os.ReadFile("docs/explanation/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	evidence, err := os.ReadFile("docs/contributing/evidence.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := testNames(t)
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
	for _, m := range named.FindAllStringSubmatch(string(promises)+string(evidence), -1) {
		if !exists[m[1]] {
			t.Errorf("%s does not exist", m[1])
		}
	}
	claim := regexp.MustCompile(`(?m)^\| ([SCL]\d+[a-z]?(?:\.\d+)?) \| (.*) \|$`)
	tests := make(map[string]string)
	for _, m := range claim.FindAllStringSubmatch(string(evidence), -1) {
		tests[m[1]] = m[2]
	}
	claims := make(map[string]bool)
	for _, m := range claim.FindAllStringSubmatch(string(promises), -1) {
		claims[m[1]] = true
		if !named.MatchString(tests[m[1]]) {
			t.Errorf("evidence.md names no test of %s", m[1])
		}
	}
	for id := range tests {
		if !claims[id] {
			t.Errorf("guarantees.md has no %s, which evidence.md names", id)
		}
	}
	for _, id := range []string{"S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "C1", "L1"} {
		if !claims[id] {
			t.Errorf("%s is missing", id)
		}
	}
	for _, want := range []string{"| A1 |", "| A2 |", "| A3 |", "\n- **"} {
		if !strings.Contains(string(promises), want) {
			t.Errorf("guarantees.md has no %q", want)
		}
	}
}
