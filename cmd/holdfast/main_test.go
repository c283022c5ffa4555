package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this test binary also the command under test, and the helpers that run
// in processes of their own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"supervise": superviseMain,
	})
}
