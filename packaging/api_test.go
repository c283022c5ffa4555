package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sh test.sh api reports a change that breaks programs, and accepts one that is listed.
func TestAPIChangesAreReported(t *testing.T) {
	getRelease(t)
	dir := filepath.Join(t.TempDir(), "clone")
	if err := cloneHere(dir, "HEAD"); err != nil {
		t.Fatal(err)
	}
	extra := filepath.Join(dir, "extra.go")
	if err := os.WriteFile(extra, []byte("package holdfast\n\n// Extra is in the release and goes.\nfunc Extra() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"add", "extra.go"}, {"-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "-m", "extra"}} {
		if _, err := output(exec.Command("git", append([]string{"-C", dir}, args...)...)); err != nil {
			t.Fatal(err)
		}
	}
	api := func() (string, error) {
		check := exec.Command("sh", "test.sh", "api")
		check.Dir = dir
		check.Env = append(os.Environ(), "API_BASE=HEAD")
		out, err := check.CombinedOutput()
		return string(out), err
	}
	if out, err := api(); err != nil {
		t.Fatalf("without a change: %v\n%s", err, out)
	}
	if err := os.WriteFile(extra, []byte("package holdfast\n\n// Another is new.\nfunc Another() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := api()
	if err == nil || !strings.Contains(out, "Extra: removed") || strings.Contains(out, "Another") {
		t.Fatalf("a removed name: %v\n%s", err, out)
	}
	var listed string
	for line := range strings.Lines(out) {
		if strings.Contains(line, "Extra: removed") {
			listed = line
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "tools", "api-changes.txt"), []byte(listed), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := api(); err != nil {
		t.Fatalf("a listed change: %v\n%s", err, out)
	}
}
