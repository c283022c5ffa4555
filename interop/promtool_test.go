package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/interop/peers"
)

// Prometheus accepts the alerting rules, their tests pass, and each expression of the dashboard is PromQL.
func TestPrometheusAcceptsRulesAndDashboard(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		err = &peers.MissingError{What: "promtool", Package: "prometheus"}
	}
	need(t, err)
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(promtool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run("check", "rules", "../contrib/prometheus/holdfast.rules.yml")
	run("test", "rules", "../contrib/prometheus/holdfast.rules.test.yml")

	text, err := os.ReadFile("../contrib/grafana/holdfast.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Targets []struct{ Expr string }
		}
		Annotations struct {
			List []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	var expressions []string
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			expressions = append(expressions, target.Expr)
		}
	}
	for _, a := range dashboard.Annotations.List {
		expressions = append(expressions, a.Expr)
	}
	if len(expressions) == 0 {
		t.Fatal("the dashboard has no expression")
	}
	// promtool checks expressions in rules only. Grafana replaces the variables.
	interval, name := regexp.MustCompile(`\[\$\w+\]`), regexp.MustCompile(`\$\w+`)
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, e := range expressions {
		e = name.ReplaceAllString(interval.ReplaceAllString(e, "[5m]"), "x")
		fmt.Fprintf(&rules, "  - record: dashboard:%d\n    expr: %q\n", i, e)
	}
	file := filepath.Join(t.TempDir(), "dashboard.rules.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run("check", "rules", file)
}
