package mutants

import (
	"flag"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

var simulate = flag.Int("simulate", 0, "run the bugs of the recipes against the simulation in chaos, with this many seeds each")

// Which of the bugs of the recipes and of the client does the simulation find, which knows
// nothing of them? It says so; those of which the table claims it must be found.
func TestSimulationFindsBugsOfTheRecipes(t *testing.T) {
	if *simulate == 0 {
		t.Skip("takes some minutes: go test ./chaos/mutants -simulate 1000 -v")
	}
	verdict := regexp.MustCompile(`(?m)^ *\w+_test\.go:\d+: seed \d+: (?:found by|goroutines|stuck).*$`)
	for _, m := range mutants() {
		if m.pkg != "" && m.pkg != "zk" {
			continue
		}
		t.Run(fmt.Sprintf("%d %s", m.number, m.bug), func(t *testing.T) {
			files, err := m.changed()
			if err != nil {
				t.Fatal(err)
			}
			of := mutant{pkg: "chaos", tests: []string{"TestSimulation"}, args: []string{"-timeout=4m", fmt.Sprint("-seeds=", *simulate)}}
			out, err := goTest(t, &of, files)
			if err != nil && strings.Contains(out, "[build failed]") {
				t.Fatal(out)
			}
			found := err != nil && verdict.MatchString(out)
			t.Logf("found: %v", found)
			for _, line := range verdict.FindAllString(out, 3) {
				t.Logf("%.200s", strings.TrimSpace(line))
			}
			if m.simulated && !found {
				t.Errorf("the simulation does not find it\n%s", out)
			}
		})
	}
}
