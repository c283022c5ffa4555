package serve

import (
	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
	"holdfast/zkserver"
)

// NewBackup returns the command backup.
func NewBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR COPY",
		Short: "Copy the store in a directory, even while a server runs",
		Long: `backup copies the store in DIR to the new directory COPY and checks the copy. A server may have the
store open. The copy has all writes that the server acknowledged before backup began.

To restore a backup, stop the old server and serve the copy: holdfast serve --data-dir COPY. All sessions of
the copy have ended then, and its locks with them. Fencing tokens go on above all that the store or another copy of it
has issued, if the clock is not behind those of its earlier servers. A copy that is damaged, or newer than the clock, is
refused. To start without old data, serve an empty directory.

Exit codes:
  0   the copy is intact
  1   the store is damaged
  78  DIR has no store, or a store of another format, or COPY exists or is inside DIR`,
		Example: `  holdfast backup /var/lib/holdfast/data /backup/holdfast-2026-11-22`,
		Args:    term.Operands("DIR", "COPY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := zkserver.BackUp(args[0], args[1])
			return summarize(cmd.OutOrStdout(), args[1]+" is a copy of "+args[0], s, err)
		},
	}
}
