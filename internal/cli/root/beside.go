package root

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
)

// newBeside returns the command holdfast NAME, which runs holdfast-NAME: a program of its own, with libraries that the
// other commands do not need. The program gets all arguments, so it reads the flags and the settings itself.
func newBeside(name, short string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Short:              short,
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return runBeside(name, args) },
		ValidArgsFunction: func(_ *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			return completeBeside(name, append(args, word))
		},
	}
}

// isBeside reports whether a command runs a program of its own.
func isBeside(cmd *cobra.Command) bool { return cmd.DisableFlagParsing }

// helpBeside prints the help of the program that args begin with. It reports whether there is one in root.
func helpBeside(root *cobra.Command, args []string) (is bool, err error) {
	if of, _ := find(root, args[:min(len(args), 1)]); of != nil && isBeside(of) {
		return true, of.RunE(of, append(args[1:], "--help"))
	}
	return false, nil
}

// hideMissing leaves the programs that are not installed out of the list of commands.
func hideMissing(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if isBeside(cmd) {
			_, err := findBeside(cmd.Name())
			cmd.Hidden = err != nil
		}
	}
}

// findBeside returns the path of holdfast-NAME: in the directory of this program, or else in one of PATH.
func findBeside(name string) (string, error) {
	program := "holdfast-" + name
	if own, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(own); err == nil {
			own = real
		}
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(own), program)); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(program)
}

// runBeside runs holdfast-NAME instead of this program, with its arguments and its environment.
func runBeside(name string, args []string) error {
	path, err := findBeside(name)
	if err == nil {
		err = become(path, args)
	}
	if _, ended := errors.AsType[term.ExitCode](err); ended || err == nil {
		return err
	}
	program := "holdfast-" + name
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return &term.Fault{Code: term.ExitNotFound, Err: errors.New(program + " is not installed: it is neither beside holdfast nor in the PATH"), Hint: "install it from the sources: go install ./cmd/" + program}
	}
	return &term.Fault{Code: term.ExitCannotExec, Err: errors.New(program + ": " + err.Error())}
}

// completeBeside asks holdfast-NAME for completions. The last one of args is the word that is completed.
func completeBeside(name string, args []string) ([]string, cobra.ShellCompDirective) {
	path, err := findBeside(name)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	out, err := exec.Command(path, append([]string{cobra.ShellCompRequestCmd}, args...)...).Output()
	names, end, ok := strings.Cut("\n"+string(out), "\n:")
	directive, wrong := strconv.Atoi(strings.TrimSpace(end))
	if err != nil || !ok || wrong != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return strings.FieldsFunc(names, func(r rune) bool { return r == '\n' }), cobra.ShellCompDirective(directive)
}
