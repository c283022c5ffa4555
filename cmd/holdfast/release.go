package main

import (
	"errors"
	"os"
	"slices"

	"holdfast/internal/supervise"
)

// errHurried is the error of a release that a signal has cut off.
var errHurried = errors.New("a signal ended the wait for the server")

// A release is what a server has answered at the end of a run.
type release struct {
	done   error // of the record that the job is done
	unlock error
}

// unlessHurried calls f, which waits for a server, and returns its result. On the nth signal that asks this process
// to stop, it returns that signal at once. Then f goes on until the process ends.
func unlessHurried[T any](signals <-chan os.Signal, nth int, f func() T) (result T, hurry os.Signal) {
	done := make(chan T, 1)
	go func() { done <- f() }()
	for {
		select {
		case result = <-done:
			return result, nil
		case sig := <-signals:
			if !slices.Contains(supervise.StopSignals, sig) {
				continue
			}
			if nth--; nth == 0 {
				return result, sig
			}
		}
	}
}
