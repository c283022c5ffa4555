package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"holdfast/internal/cli/term"
	"holdfast/internal/supervise"
)

// Environ returns the environment of this process with the variables added. They replace inherited
// ones of the same name, for example of an outer holdfast run: some programs take the first of two.
func Environ(added []string) []string {
	return (&exec.Cmd{Env: append(os.Environ(), added...)}).Environ()
}

// StopSignals returns the signals that end a wait. stop, that of --kill-signal, is one of them, but not if it has another
// meaning before the command runs.
func StopSignals(stop os.Signal) []os.Signal {
	if slices.Contains(supervise.JobSignals, stop) {
		return supervise.StopSignals
	}
	return append(slices.Clone(supervise.StopSignals), stop)
}

// ExitOf makes the end of the command that of this program.
func ExitOf(out supervise.Outcome) error {
	err := term.EndedBy(syscall.Signal(out.Signal))
	if key, ok := err.(term.Interrupted); ok {
		key.Group = out.Key
		return key
	}
	return term.ExitCode(out.Code)
}

// CannotRun returns the fault of a command that did not start: 127 if it does not exist, else 126.
func CannotRun(name string, err error) *term.Fault {
	reason := err
	if e, ok := errors.AsType[*exec.Error](err); ok {
		reason = e.Err
	} else if e, ok := errors.AsType[*fs.PathError](err); ok {
		reason = e.Err
	}
	f := &term.Fault{Code: term.ExitCannotExec, Err: fmt.Errorf("run %s: %w", name, reason)}
	switch {
	case errors.Is(err, exec.ErrNotFound):
		f.Code, f.Err = term.ExitNotFound, fmt.Errorf("run %s: command not found", name)
		if _, statErr := os.Stat(name); strings.HasPrefix(name, "-") {
			f.Hint = "flags of holdfast belong before the name of the lock"
		} else if statErr == nil {
			f.Hint = "to run the file in this directory, write ./" + name
		}
	case errors.Is(err, fs.ErrNotExist):
		f.Code = term.ExitNotFound
		if _, statErr := os.Stat(name); statErr == nil {
			f.Code, f.Hint = term.ExitCannotExec, "the interpreter in its first line (#!) does not exist: install it, or correct the line"
		}
	case errors.Is(err, syscall.ENOEXEC):
		f.Hint = "if it is a script, begin it with a line such as #!/bin/sh"
	case errors.Is(err, exec.ErrDot):
		f.Hint = "to run the file in this directory, write ./" + name
	}
	return f
}

// UnlessHurried calls f, which waits for a server, and returns its result. On the nth signal that asks this process
// to stop, it returns that signal at once. Then f goes on until the process ends.
func UnlessHurried[T any](signals <-chan os.Signal, nth int, f func() T) (result T, hurry os.Signal) {
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

// Dashless returns the command in run's arguments: everything after the lock's name and an
// optional --.
func Dashless(args []string) []string {
	if len(args) > 1 && args[1] == "--" {
		return args[2:]
	}
	return args[min(1, len(args)):]
}
