//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writeSecret writes a file that only this user can read.
func writeSecret(t *testing.T, dir, name string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}
