package root

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"

	"holdfast/internal/cli/term"
)

// become runs another program, and ends with its exit code.
func become(path string, args []string) error {
	signal.Ignore(os.Interrupt) // the program gets it, too
	cmd := exec.Command(path, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if exited, ok := errors.AsType[*exec.ExitError](err); ok {
		return term.ExitCode(exited.ExitCode())
	}
	return err
}
