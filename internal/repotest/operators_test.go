package repotest

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const (
	rulesFile     = "contrib/prometheus/holdfast.rules.yml"
	rulesTest     = "contrib/prometheus/holdfast.rules.test.yml"
	dashboardFile = "contrib/grafana/holdfast.json"
	runbook       = "docs/howto/alerts.md"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Rules and dashboard name only metrics that exist. Other tests compare the tables of the two pages with the code.
func TestOperatorsFilesNameMetricsThatExist(t *testing.T) {
	exist := make(map[string]bool)
	for _, page := range []string{"docs/reference/lock-metrics.md", "docs/reference/metrics.md"} {
		for _, m := range regexp.MustCompile("(?m)^\\| `(holdfast_\\w+)` \\| (\\w+)").FindAllStringSubmatch(read(t, page), -1) {
			exist[m[1]] = true
			if m[2] == "histogram" {
				for _, part := range []string{"_bucket", "_sum", "_count"} {
					exist[m[1]+part] = true
				}
			}
		}
	}
	if len(exist) == 0 {
		t.Fatal("the pages list no metrics")
	}
	for _, file := range []string{rulesFile, rulesTest, dashboardFile} {
		named := regexp.MustCompile(`\bholdfast_\w+`).FindAllString(read(t, file), -1)
		if len(named) == 0 {
			t.Errorf("%s names no metric", file)
		}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(named))) {
			if !exist[name] {
				t.Errorf("%s names %s, which does not exist", file, name)
			}
		}
	}
}

// Each alert has a section in the runbook, which its annotation names, and two tests: one in which it fires, and one
// in which it does not.
func TestEveryAlertIsExplainedAndTested(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Labels      map[string]string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesFile)), &rules); err != nil {
		t.Fatal(err)
	}
	var tests struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, rulesTest)), &tests); err != nil {
		t.Fatal(err)
	}
	fires, silent := make(map[string]bool), make(map[string]bool)
	for _, test := range tests.Tests {
		for _, a := range test.AlertRuleTest {
			if len(a.ExpAlerts) > 0 {
				fires[a.Alertname] = true
			} else {
				silent[a.Alertname] = true
			}
		}
	}
	var headings, alerts []string
	for _, m := range regexp.MustCompile(`(?m)^### (\w+)$`).FindAllStringSubmatch(read(t, runbook), -1) {
		headings = append(headings, m[1])
	}
	for _, group := range rules.Groups {
		for _, r := range group.Rules {
			alerts = append(alerts, r.Alert)
			if !fires[r.Alert] || !silent[r.Alert] {
				t.Errorf("%s: a test in which it fires: %v, one in which it is silent: %v", r.Alert, fires[r.Alert], silent[r.Alert])
			}
			if want := runbook + "#" + strings.ToLower(r.Alert); r.Annotations["runbook"] != want {
				t.Errorf("%s: the annotation runbook is %q; want %q", r.Alert, r.Annotations["runbook"], want)
			}
			if severity := r.Labels["severity"]; severity != "critical" && severity != "warning" {
				t.Errorf("%s: severity %q", r.Alert, severity)
			}
		}
	}
	if len(alerts) == 0 || !slices.Equal(alerts, headings) {
		t.Errorf("the alerts are\n%q\nand the sections of the runbook\n%q", alerts, headings)
	}
}

// Grafana reads the dashboard: its panels have their own ids, do not overlap, and say what they show.
func TestDashboardIsWellFormed(t *testing.T) {
	type box struct{ X, Y, W, H int }
	var d struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos box
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	variables := []string{"__range", "__rate_interval"}
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	ids := make(map[int]bool)
	for i, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] || p.Title == "" || (len(p.Targets) == 0) != (p.Type == "row") {
			t.Errorf("panel %d: id %d, title %q, %d expressions", i, p.ID, p.Title, len(p.Targets))
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			for _, m := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(variables, m[1]) {
					t.Errorf("panel %q: there is no variable %s", p.Title, m[1])
				}
			}
		}
		a := p.GridPos
		if a.W < 1 || a.H < 1 || a.X+a.W > 24 {
			t.Errorf("panel %q lies at %+v", p.Title, a)
		}
		for _, q := range d.Panels[:i] {
			if b := q.GridPos; a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("panels %q and %q overlap", p.Title, q.Title)
			}
		}
	}
	if len(d.Panels) == 0 {
		t.Error("no panels")
	}
}
