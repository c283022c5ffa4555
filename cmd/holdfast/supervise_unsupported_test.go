//go:build !unix

package main

// superviseMain has nothing to show where there are no signals.
func superviseMain() {}
