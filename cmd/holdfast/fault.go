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

// The exit codes are for scripts. The codes of run answer "did my command run?"; the command itself may
// use any of 0 to 255, too. 75, 77 and 78 come from sysexits.h, and 79 is the first code after them.
// timeout, env and docker use 125 to 127 in the same way.
const (
	exitNo          = 1  // a negative answer: status -q of a free lock
	exitUsage       = 2  // wrong command line
	exitUnavailable = 69 // no server answered, or the server failed
	exitBusy        = 75 // the lock was held (--try), or the wait timed out (--wait)
	exitDenied      = 77 // no permission
	exitConfig      = 78 // wrong server URL, namespace or environment variable
	exitLost        = 79 // the lock was lost; takes precedence over the command's own code
	exitFailed      = 125
	exitCannotExec  = 126
	exitNotFound    = 127
	exitSignal      = 128 // +N: signal N killed the command or ended the wait for the lock
)

// A fault is an error with an exit code and, if there is one, a hint: what the user can do.
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

// An exitCode is an error that ends the program with that code and no message.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// report prints err and returns the exit code of the subcommand.
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
	if command == "run" || command == "elect" || command == "shard" {
		// Codes below 125 belong to the command, except 75 and 79 from run itself. An expired
		// session is not 79 if no command ran.
		own, ok := errors.AsType[*fault](err)
		if !ok || own.code != exitBusy && own.code != exitLost && own.code < exitFailed {
			return exitFailed
		}
	}
	return f.code
}

// explain finds the exit code of an error that is no fault.
func explain(err error) *fault {
	if f, ok := errors.AsType[*fault](err); ok {
		return f
	}
	switch {
	case errors.Is(err, holdfast.ErrLocked):
		return &fault{exitBusy, err, ""}
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, zk.ErrSessionExpired):
		return &fault{exitLost, err, ""}
	case errors.Is(err, zk.ErrAuthFailed):
		return &fault{exitDenied, err, "log in with --auth sasl-digest:USER --password-file FILE"}
	case errors.Is(err, fs.ErrPermission): // also zk.ErrNoAuth
		return &fault{exitDenied, err, ""}
	case errors.Is(err, zk.ErrInvalidPath):
		return &fault{exitUsage, err, ""}
	}
	return &fault{exitUnavailable, err, ""}
}
