package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"holdfast"
	"holdfast/zk"
)

// The exit codes, for scripts. Those of run answer "did my command run?"; 0 to 255 are the
// command's own as well. 75, 77 and 78 are those of sysexits.h, 79 is the first free one
// after them, and 125 to 127 are those of timeout, env and docker.
const (
	exitNo          = 1  // a negative answer: status -q of a free lock
	exitUsage       = 2  // the command line
	exitUnavailable = 69 // no server could be reached, or it failed
	exitBusy        = 75 // the lock was not had: --try, or --wait ended
	exitDenied      = 77 // permission
	exitConfig      = 78 // a server URL, a namespace, an environment variable
	exitLost        = 79 // the lock was lost; never masked by the command's own code
	exitFailed      = 125
	exitCannotExec  = 126
	exitNotFound    = 127
	exitSignal      = 128 // + N: killed by signal N, or N ended the wait for the lock
)

// A fault is an error that knows its exit code and, where that helps, what to do.
type fault struct {
	code int
	err  error
	hint string
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

func usage(hint, format string, args ...any) error {
	return &fault{exitUsage, fmt.Errorf(format, args...), hint}
}

func misconfigured(hint, format string, args ...any) error {
	return &fault{exitConfig, fmt.Errorf(format, args...), hint}
}

// An exitCode ends the program with that code and without a message.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// report prints err and returns the exit code of the named subcommand.
func report(w io.Writer, command string, err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	f := explain(err)
	fmt.Fprintf(w, "holdfast: %s\n", escape(strings.TrimPrefix(f.err.Error(), "holdfast: ")))
	if f.hint != "" {
		fmt.Fprintf(w, "holdfast: hint: %s\n", escape(f.hint))
	}
	if command == "run" || command == "elect" {
		// Those below 125 are for the command's own codes, but for the two that run has
		// given itself; an expired session, say, is no 79 as long as nothing ran.
		own, ok := errors.AsType[*fault](err)
		if !ok || own.code != exitBusy && own.code != exitLost && own.code < exitFailed {
			return exitFailed
		}
	}
	return f.code
}

// explain finds the exit code for an error that has none yet.
func explain(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	switch {
	case errors.Is(err, holdfast.ErrLocked):
		return &fault{exitBusy, err, ""}
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, zk.ErrSessionExpired):
		return &fault{exitLost, err, ""}
	case errors.Is(err, fs.ErrPermission): // also zk.ErrNoAuth and zk.ErrAuthFailed
		return &fault{exitDenied, err, ""}
	case errors.Is(err, zk.ErrInvalidPath):
		return &fault{exitUsage, err, ""}
	}
	return &fault{exitUnavailable, err, ""}
}
