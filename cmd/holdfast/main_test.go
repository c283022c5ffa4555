package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"holdfast/internal/cli/dashboard"
	"holdfast/internal/cli/mcp"
	"holdfast/internal/cli/program"
	"holdfast/internal/cli/root"
	"holdfast/internal/cli/tf"
	"holdfast/internal/cli/top"
	"holdfast/internal/watchdog"
)

// newRoot returns the command.
func newRoot() *cobra.Command { return root.New(licenses) }

// TestMain lets this test binary run as the command under test, too.
func TestMain(m *testing.M) {
	// With the race detector, a process sleeps for a second before it exits, and there are many here.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	testscript.Main(m, map[string]func(){
		"holdfast":            func() { os.Exit(program.Main(root.New(licenses, os.Args[1:]...))) },
		watchdog.ExecutorName: func() { os.Exit(program.Main(newRoot())) },
		"holdfast-mcp":        func() { os.Exit(program.Main(mcp.New())) },
		"holdfast-ui":         func() { os.Exit(program.Main(dashboard.New())) },
		"holdfast-tf":         func() { os.Exit(program.Main(tf.New())) },
		"holdfast-top":        func() { os.Exit(program.Main(top.New())) },
	})
}
