package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module writes a module with one package for each file, and returns its directory.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOutcomes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	const head = "package p\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nvar _ = os.Args\n\n"
	dir := module(t, map[string]string{
		"good/p_test.go":   head + "func TestGood(t *testing.T) {}\nfunc TestLeftOut(t *testing.T) { t.Skip(\"no such peer\") }\n",
		"broken/p_test.go": head + "func TestGood(t *testing.T) {}\nfunc TestBroken(t *testing.T) { t.Run(\"a b\", func(t *testing.T) { t.Error(\"always\") }) }\n",
		"flaky/p_test.go": head + `func TestFlaky(t *testing.T) {
	t.Run("some times/a", func(t *testing.T) {
		if _, err := os.Stat("failed"); err != nil {
			os.WriteFile("failed", nil, 0o644)
			t.Fatal("only once")
		}
		f, _ := os.OpenFile("failed", os.O_APPEND|os.O_WRONLY, 0)
		f.WriteString("x")
		f.Close()
	})
}
`,
		"fifth/p_test.go": head + `func TestFifth(t *testing.T) {
	f, _ := os.OpenFile("runs", os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	f.WriteString("x")
	f.Close()
	if b, _ := os.ReadFile("runs"); len(b) == 1 || len(b) == 6 {
		t.Fatal("the first and the sixth time")
	}
}
`,
		"panics/p_test.go":   head + "func TestPanics(t *testing.T) { panic(\"always\") }\n",
		"exits/p_test.go":    head + "func TestMain(m *testing.M) { m.Run(); println(\"a goroutine is left\"); os.Exit(1) }\nfunc TestGood(t *testing.T) {}\n",
		"compiles/p_test.go": "package p\n\nfunc f() int { return \"\" }\n",
	})
	results := filepath.Join(t.TempDir(), "results")
	t.Setenv("RUNTESTS_RESULTS", results)
	for _, args := range [][]string{
		{"step", "the tests", "-C", dir, "go", "test", "-shuffle=7", "./..."},
		{"step", "a command", "-C", dir, "sh", "-c", "test -e go.mod"},
		{"step", "another", "false"},
	} {
		if err := run(args); err != nil {
			t.Fatal(err)
		}
	}
	all, err := read(results)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]result)
	for _, r := range all {
		got[strings.TrimPrefix(r.Step+" "+r.Package, "the tests example/")] = r
	}
	for _, tt := range []struct {
		name   string
		failed bool
		why    string
	}{
		{"good", false, ""},
		{"broken", true, "TestBroken/a_b: failed again, at the repetition 1"},
		{"flaky", false, ""},
		{"fifth", true, "TestFifth: failed again, at the repetition 5"},
		{"panics", true, "TestPanics: failed again, at the repetition 1"},
		{"exits", true, "no test has failed, and the package has: FAIL\texample/exits"},
		{"compiles", true, "it does not compile"},
		{"a command ", false, ""},
		{"another ", true, "false: exit status 1"},
	} {
		r, ok := got[tt.name]
		if why := strings.Join(r.Why, "\n"); !ok || r.Failed != tt.failed || !strings.HasPrefix(why, tt.why) || (why == "") != (tt.why == "") {
			t.Errorf("%s: %v %+v; want failed %v, %q", tt.name, ok, r, tt.failed, tt.why)
		}
	}
	if good := got["good"]; good.Passed != 1 || !slices.Equal(good.LeftOut, []string{"TestLeftOut: no such peer"}) {
		t.Errorf("good: %+v", good)
	}
	if f := got["flaky"].Flaky; len(f) != 1 || f[0].Test != "TestFlaky/some_times/a" || f[0].Seed != "7" || !strings.Contains(f[0].Log, "only once") {
		t.Errorf("flaky: %+v", f)
	}
	if runs, err := os.ReadFile(filepath.Join(dir, "flaky", "failed")); len(runs) != repetitions {
		t.Errorf("the flaky test passed %d times, %v; want %d", len(runs), err, repetitions)
	}
	var out bytes.Buffer
	if err := report(&out, all, []string{"beside", "prove"}); err == nil {
		t.Error("the report has no error")
	}
	for _, want := range []string{
		"FLAKY example/flaky.TestFlaky/some_times/a, seed 7, log:",
		"FAILED  the tests example/broken",
		"left out: good.TestLeftOut: no such peer",
		"FAILED (6): 3 steps, 3 tests; 1 flaky; 1 tests left out, reasons above; not run: beside, prove (sh test.sh beside prove)\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report has no %q:\n%s", want, &out)
		}
	}
}

func TestAlone(t *testing.T) {
	for _, tt := range []struct {
		name, test string
		args, want []string
	}{
		{"a package", "TestA", []string{"-race", "-shuffle=on", "-parallel=4", "./..."}, []string{"-race", "-parallel=4", "-count=1", "-run=^TestA$", "example/p"}},
		{"flags of the tests", "TestA/x(y)", []string{"-count=1", "-run=^(TestA|TestB)$", "-v", "./chaos", "-seeds=500"}, []string{"-count=1", `-run=^TestA$/^x\(y\)$`, "example/p", "-seeds=500"}},
		{"no package", "TestA", []string{"-shuffle=on", "-skip=^TestB$", "-minutes=5"}, []string{"-minutes=5", "-count=1", "-run=^TestA$"}},
		{"short", "TestA", []string{"-short", "./..."}, []string{"-short", "-count=1", "-run=^TestA$", "example/p"}},
	} {
		if got := alone(tt.args, "example/p", tt.test); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q; want %q", tt.name, got, tt.want)
		}
	}
}

func TestInnermost(t *testing.T) {
	for _, tt := range []struct {
		failed, want []string
	}{
		{[]string{"TestA"}, []string{"TestA"}},
		{[]string{"TestA/b", "TestA"}, []string{"TestA/b"}},
		{[]string{"TestA/b/c", "TestA/b", "TestA", "TestAB"}, []string{"TestA/b/c", "TestAB"}},
		{[]string{"TestA/1", "TestA/2", "TestA/3", "TestA/4", "TestA/5", "TestA/6", "TestA"}, []string{"TestA"}},
	} {
		if got := innermost(tt.failed); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q; want %q", tt.failed, got, tt.want)
		}
	}
}
