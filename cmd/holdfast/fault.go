package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"holdfast"
	"holdfast/internal/budget"
	"holdfast/internal/supervise"
	"holdfast/zk"
)

// The exit codes are for scripts. The codes of run answer "did my command run?"; the command itself may
// use any of 0 to 255, too. 75, 77 and 78 come from sysexits.h, and 79 is the first code after them.
// timeout uses 124 to 127 in the same way, env and docker 125 to 127.
const (
	exitNo          = 1   // a negative answer: status -q of a free lock
	exitUsage       = 2   // wrong command line
	exitUnavailable = 69  // no server answered, or the server failed
	exitBusy        = 75  // the lock was held (--try), or the wait timed out (--wait), or the job is done (--once-per)
	exitDenied      = 77  // no permission
	exitConfig      = 78  // wrong server URL, namespace or environment variable
	exitLost        = 79  // the lock was lost; takes precedence over the command's own code
	exitOverdue     = 124 // the command was stopped after --max-hold, as timeout does
	exitFailed      = 125
	exitCannotExec  = 126
	exitNotFound    = 127
	exitSignal      = 128 // +N: signal N killed the command or ended the wait for the lock
)

// maxMessage is the length of the longest error, whatever its user typed, and maxWord that of a word in it.
const (
	maxMessage = 1000
	maxWord    = 250
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

// A keyed is an error that ends the program by INT or QUIT, the signals of ctrl-C and ctrl-\. A shell then ends the script
// or the loop around the program, as if the program had not handled the key.
type keyed struct {
	signal syscall.Signal
	group  bool // the process group of this program has not got the key
}

func (k keyed) Error() string { return k.Unwrap().Error() }

// Unwrap returns the exit code that a shell shows.
func (k keyed) Unwrap() error { return exitCode(exitSignal + int(k.signal)) }

// endedBy is the error of a command or a wait that a signal has ended.
func endedBy(sig os.Signal) error {
	if sig == os.Interrupt || sig == syscall.SIGQUIT {
		return keyed{signal: sig.(syscall.Signal)}
	}
	return exitCode(exitSignal + supervise.SignalNumber(sig))
}

// report prints err and returns the exit code of the subcommand.
func report(w io.Writer, format logFormat, command string, err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	if chosen, ok := errors.AsType[chosenCode](err); ok {
		report(w, format, command, chosen.err)
		return chosen.code
	}
	f := explain(err)
	text := strings.TrimPrefix(f.err.Error(), "holdfast: ")
	_, _ = io.WriteString(w, format.message(levelError, brief(escape(text)), brief(escape(f.hint))))
	if command == "run" || command == "elect" || command == "shard" || command == "tf" {
		// Codes below 125 belong to the command, except 75, 79 and 124 from run itself. An expired
		// session is not 79 if no command ran.
		own, ok := errors.AsType[*fault](err)
		if !ok || own.code != exitBusy && own.code != exitLost && own.code != exitOverdue && own.code < exitFailed {
			return exitFailed
		}
	}
	return f.code
}

// brief shortens each long word of a message, so that the reason behind it is still there, and the message.
func brief(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		if len(word) > maxWord {
			words[i] = cut(word, maxWord-50)
		}
	}
	return cut(strings.Join(words, " "), maxMessage)
}

// loginHint says how to log in at a server that demands it.
const loginHint = "log in with --auth sasl-digest:USER --password-file FILE, or with --auth digest:USER where the server's enforce.auth.schemes is digest"

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
		return &fault{exitDenied, err, loginHint}
	case errors.Is(err, fs.ErrPermission): // also zk.ErrNoAuth
		return &fault{exitDenied, err, ""}
	case errors.Is(err, budget.ErrTooMuch):
		return &fault{exitUnavailable, err, "give a prefix that fewer names have; limits are in docs/reference/limits.md"}
	case errors.Is(err, zk.ErrInvalidPath):
		return &fault{exitUsage, err, ""}
	}
	return &fault{exitUnavailable, err, ""}
}

// A chosenCode is an error with the exit code of the process, which the user may have chosen.
type chosenCode struct {
	code int
	err  error
}

func (c chosenCode) Error() string { return c.err.Error() }

func (c chosenCode) Unwrap() error { return c.err }
