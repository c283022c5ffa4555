package serve

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
	"holdfast/zkserver"
)

// NewCheck returns the command check.
func NewCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR",
		Short: "Check the store in a directory",
		Long: `check reads the whole store in DIR and changes nothing. No server may have the store open. In a copy that
holdfast backup has made, it finds every damage, also at the end.

Exit codes:
  0   the store is intact
  1   the store is damaged
  69  a server has the store open
  78  DIR has no store, or a store of another format`,
		Example: `  holdfast check /var/lib/holdfast/data`,
		Args:    term.Operands("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := zkserver.Check(args[0])
			return summarize(cmd.OutOrStdout(), args[0]+" is intact", s, err)
		},
	}
}

// summarize prints the contents of a store, or turns err into a fault with an exit code and a hint.
func summarize(w io.Writer, what string, s zkserver.Summary, err error) error {
	switch {
	case errors.Is(err, zkserver.ErrDamaged):
		return &term.Fault{Code: term.ExitNo, Err: err, Hint: "restore a backup, or move the directory away to start with an empty one"}
	case errors.Is(err, zkserver.ErrInUse):
		return &term.Fault{Code: term.ExitUnavailable, Err: err, Hint: "stop the server first, or run holdfast backup, which copies the store and checks the copy"}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.ENOTDIR):
		return term.Misconfigured("give the directory of a store, such as the --data-dir of a server", "%w", err)
	case errors.Is(err, zkserver.ErrInside):
		return term.Misconfigured("give a directory outside of the store", "%w", err)
	case errors.Is(err, zkserver.ErrFormat), errors.Is(err, fs.ErrExist):
		return term.Misconfigured("", "%w", err)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(w, "%s: %d nodes, %d sessions, %d commits, %d bytes\n", what, s.Znodes, s.Sessions, s.Commits, s.Bytes)
	return err
}
