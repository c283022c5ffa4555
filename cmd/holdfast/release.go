package main

import "errors"

// errHurried is the error of a release that a signal has cut off.
var errHurried = errors.New("a signal ended the wait for the server")

// A release is what a server has answered at the end of a run.
type release struct {
	done   error // of the record that the job is done
	unlock error
}
