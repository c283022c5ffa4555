package main

import "os"

func main() { os.Exit(Main()) }

// Main runs the command line of this process and returns its exit code. It is what main
// and the tests' scripts share.
func Main() int {
	cmd, err := newRoot().ExecuteC()
	return report(os.Stderr, cmd.Name(), err)
}
