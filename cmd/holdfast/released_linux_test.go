package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// buildReleased builds the command as releases are built, without cgo.
func buildReleased(t *testing.T) (binary string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds the command: go test without -short runs it")
	}
	binary = filepath.Join(t.TempDir(), "holdfast")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

// The tests run with cgo, where another function looks before Go's runtime starts.
func TestReleasedCommandLooksBeforeGoStarts(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("on this architecture, only HUP and INT stay ignored")
	}
	binary, dir := buildReleased(t), t.TempDir()
	t.Cleanup(func() { killHosts(dir) })
	// Too little address space for Go's runtime is no end of the command.
	for _, tt := range []struct{ space, code int }{{100_000, 125}, {500_000, 125}, {1_200_000, 125}, {1_749_999, 125}, {1_750_000, 7}} {
		cmd := exec.Command("sh", "-c", fmt.Sprintf(`ulimit -v %d; exec "$0" run job -- sh -c 'exit 7'`, tt.space), binary)
		cmd.Env = append(os.Environ(), "HOLDFAST_SERVER=file://"+filepath.Join(dir, "store"))
		out, err := cmd.CombinedOutput()
		const why = "holdfast: the address space is too small: Go programs need ulimit -v 1750000 or more\n"
		if exitStatus(err) != tt.code || tt.code == 125 && string(out) != why {
			t.Errorf("with %d KiB: exit code %d, %q; want %d", tt.space, exitStatus(err), out, tt.code)
		}
	}
	for _, signals := range []string{"", "TERM", "HUP INT QUIT USR1 USR2 PIPE ALRM TERM XFSZ TSTP TTIN TTOU RTMAX"} {
		run := func(wrapper string) string {
			t.Helper()
			cmd := exec.Command("bash", "-c", `for sig in `+signals+`; do trap '' $sig; done; exec `+wrapper+` sh -c 'grep SigIgn /proc/$$/status'`)
			cmd.Env = append(os.Environ(), "HOLDFAST_SERVER=file://"+filepath.Join(dir, "store"))
			cmd.Stderr = t.Output()
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			return string(out)
		}
		if got, want := run(binary+" run job --"), run("env"); got != want {
			t.Errorf("%q: the command has %q; want %q", signals, got, want)
		}
	}
}
