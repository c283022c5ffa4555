package main

import "os"

func main() { os.Exit(Main()) }

// Main runs the command line of this process and returns its exit code. main and the scripts of the
// tests share it.
func Main() int {
	cmd, err := newRoot().ExecuteC()
	return report(os.Stderr, formatOf(cmd), cmd.Name(), err)
}
