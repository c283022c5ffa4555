package main

import (
	"errors"
	"os"

	"holdfast/internal/supervise"
)

func main() { os.Exit(Main()) }

// Main runs the command line of this process and returns its exit code. main and the scripts of the
// tests share it.
func Main() int {
	cmd, err := newRoot().ExecuteC()
	code := report(os.Stderr, formatOf(cmd), cmd.Name(), err)
	if key, ok := errors.AsType[keyed](err); ok {
		supervise.Die(key.signal, key.group)
	}
	return code
}
