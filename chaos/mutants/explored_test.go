package mutants

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var explored = flag.Int("explored", 0, "run the bugs of the recipes against the scenes in chaos, with this many schedules")

// TestScenesFindBugsOfTheRecipes lists the bugs of the recipes that the scenes of TestExplore find, which know nothing of
// them, and the first schedule of each.
func TestScenesFindBugsOfTheRecipes(t *testing.T) {
	if *explored == 0 {
		t.Skip("takes some minutes: go test ./chaos/mutants -run Scenes -explored 6000 -v")
	}
	verdict := regexp.MustCompile(`found after \d+ schedules of .*|[a-z ]+, schedule .*: goroutines: .*`)
	for _, m := range mutants() {
		if m.pkg != "" && m.pkg != "zk" {
			continue
		}
		t.Run(fmt.Sprintf("%d %s", m.number, m.bug), func(t *testing.T) {
			files, err := m.changed()
			if err != nil {
				t.Fatal(err)
			}
			of := mutant{pkg: "chaos", tests: []string{"TestExplore"}, args: []string{"-timeout=4m", fmt.Sprint("-schedules=", *explored)}}
			out, err := goTest(t, &of, files)
			if err != nil && strings.Contains(out, "[build failed]") {
				t.Fatal(out)
			}
			found := verdict.FindAllString(out, 3)
			t.Logf("found: %v", err != nil && len(found) > 0)
			for _, line := range found {
				t.Logf("%.200s", line)
			}
			if m.explored && len(found) == 0 {
				t.Errorf("the scenes do not find it\n%s", out)
			}
		})
	}
}
