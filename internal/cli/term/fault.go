package term

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
	"holdfast/internal/duration"
	"holdfast/internal/supervise"
	"holdfast/zk"
)

// The exit codes are for scripts. The codes of run answer "did my command run?"; the command itself may
// use any of 0 to 255, too. 75, 77 and 78 come from sysexits.h, and 79 is the first code after them.
// timeout uses 124 to 127 in the same way, env and docker 125 to 127.
const (
	ExitNo          = 1   // a negative answer: status -q of a free lock
	ExitUsage       = 2   // wrong command line
	ExitDeadlock    = 35  // the wait was the victim of a deadlock (--on-deadlock fail); EDEADLK of Linux
	ExitUnavailable = 69  // no server answered, or the server failed
	ExitBusy        = 75  // the lock was held (--try), or the wait timed out (--wait), or the job is done (--once-per)
	ExitDenied      = 77  // no permission
	ExitConfig      = 78  // wrong server URL, namespace or environment variable
	ExitLost        = 79  // the lock was lost; takes precedence over the command's own code
	ExitOverdue     = 124 // the command was stopped after --max-hold, as timeout does
	ExitFailed      = 125
	ExitCannotExec  = 126
	ExitNotFound    = 127
	ExitSignal      = 128 // +N: signal N killed the command or ended the wait for the lock
)

// MaxMessage is the length of the longest error, whatever its user typed.
const MaxMessage = 1000

// maxWord is the length of the longest word in an error.
const maxWord = 250

// A Fault is an error with an exit code and, if there is one, a hint: what the user can do.
type Fault struct {
	Code int
	Err  error
	Hint string
}

// Error returns the text of the error, without the hint.
func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns the error.
func (f *Fault) Unwrap() error { return f.Err }

// Usage returns the fault of a wrong command line.
func Usage(hint, format string, args ...any) error {
	return &Fault{ExitUsage, fmt.Errorf(format, duration.InMessage(args)...), hint}
}

// Misconfigured returns the fault of a wrong setting: of a flag, the environment, or a configuration file.
func Misconfigured(hint, format string, args ...any) error {
	return &Fault{ExitConfig, fmt.Errorf(format, duration.InMessage(args)...), hint}
}

// An ExitCode is an error that ends the program with that code and no message.
type ExitCode int

// Error names the code. Report prints nothing for it.
func (c ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// An Interrupted is an error that ends the program by INT or QUIT, the signals of ctrl-C and ctrl-\. A shell then ends the script
// or the loop around the program, as if the program had not handled the key.
type Interrupted struct {
	Signal syscall.Signal
	Group  bool // the process group of this program has not got the key
}

// Error names the exit code that a shell shows.
func (k Interrupted) Error() string { return k.Unwrap().Error() }

// Unwrap returns the exit code that a shell shows.
func (k Interrupted) Unwrap() error { return ExitCode(ExitSignal + int(k.Signal)) }

// EndedBy is the error of a command or a wait that a signal has ended.
func EndedBy(sig os.Signal) error {
	if sig == os.Interrupt || sig == syscall.SIGQUIT {
		return Interrupted{Signal: sig.(syscall.Signal)}
	}
	return ExitCode(ExitSignal + supervise.SignalNumber(sig))
}

// Report prints err and returns the exit code of the subcommand.
func Report(w io.Writer, format LogFormat, command string, err error) int {
	if err == nil {
		return 0
	}
	if code, ok := errors.AsType[ExitCode](err); ok {
		return int(code)
	}
	if chosen, ok := errors.AsType[ChosenCode](err); ok {
		Report(w, format, command, chosen.Err)
		return chosen.Code
	}
	f := Explain(err)
	text := strings.TrimPrefix(f.Err.Error(), "holdfast: ")
	_, _ = io.WriteString(w, format.message(levelError, Brief(Escape(text)), Brief(Escape(f.Hint))))
	if command == "run" || command == "elect" || command == "shard" || command == "tf" {
		// Codes below 125 belong to the command, except 35, 75, 79 and 124 from run itself. An expired
		// session is not 79 if no command ran.
		own, ok := errors.AsType[*Fault](err)
		if !ok || own.Code != ExitBusy && own.Code != ExitLost && own.Code != ExitOverdue && own.Code != ExitDeadlock && own.Code < ExitFailed {
			return ExitFailed
		}
	}
	return f.Code
}

// Brief shortens each long word of a message, so that the reason behind it is still there, and the message.
func Brief(text string) string {
	words := strings.Split(text, " ")
	for i, word := range words {
		if len(word) > maxWord {
			words[i] = Cut(word, maxWord-50)
		}
	}
	return Cut(strings.Join(words, " "), MaxMessage)
}

// LoginHint says how to log in at a server that demands it.
const LoginHint = "log in with --auth sasl-digest:USER --password-file FILE, or with --auth digest:USER where the server's enforce.auth.schemes is digest"

// Explain finds the exit code of an error that is no fault.
func Explain(err error) *Fault {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	switch {
	case errors.Is(err, holdfast.ErrLocked):
		return &Fault{ExitBusy, err, ""}
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, zk.ErrSessionExpired):
		return &Fault{ExitLost, err, ""}
	case errors.Is(err, zk.ErrAuthFailed):
		return &Fault{ExitDenied, err, LoginHint}
	case errors.Is(err, fs.ErrPermission): // also zk.ErrNoAuth
		return &Fault{ExitDenied, err, ""}
	case errors.Is(err, budget.ErrTooMuch):
		return &Fault{ExitUnavailable, err, "give a prefix that fewer names have; limits are in docs/reference/limits.md"}
	case errors.Is(err, zk.ErrInvalidPath):
		return &Fault{ExitUsage, err, ""}
	}
	return &Fault{ExitUnavailable, err, ""}
}

// A ChosenCode is an error with the exit code of the process, which the user may have chosen.
type ChosenCode struct {
	Code int
	Err  error
}

// Error returns the text of the error.
func (c ChosenCode) Error() string { return c.Err.Error() }

// Unwrap returns the error.
func (c ChosenCode) Unwrap() error { return c.Err }
