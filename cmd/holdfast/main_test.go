package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary the command under test, too.
func TestMain(m *testing.M) {
	// A process with the race detector sleeps for a second before it exits, and here are many.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	testscript.Main(m, map[string]func(){
		"holdfast": func() { os.Exit(Main()) },
	})
}
