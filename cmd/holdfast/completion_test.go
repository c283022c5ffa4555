//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The TAB key neither makes the directory of the store nor starts a host for it.
func TestCompletionLeavesNoTrace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	complete := func(store string) string {
		cmd := exec.Command("holdfast", "__complete", "status", "")
		cmd.Env = append(os.Environ(), "HOME="+dir, "HOLDFAST_CONFIG=/dev/null", "HOLDFAST_SERVER=file://"+store)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if out := complete(filepath.Join(dir, "none")); !strings.HasPrefix(out, ":") {
		t.Errorf("completions %q", out)
	}
	store := filepath.Join(dir, "used")
	cmd := exec.Command("holdfast", "serve", "--data-dir", store, "--linger", "10ms")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	before, err := os.ReadDir(store)
	if err != nil {
		t.Fatal(err)
	}
	if out := complete(store); !strings.HasPrefix(out, ":") {
		t.Errorf("completions %q", out)
	}
	after, err := os.ReadDir(store)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d files in the store became %d (%v)", len(before), len(after), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left %v (%v)", left, err)
	}
}
