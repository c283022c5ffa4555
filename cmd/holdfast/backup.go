package main

import (
	"github.com/spf13/cobra"

	"holdfast/zkserver"
)

func newBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR COPY",
		Short: "Copy the store in a directory, even while a server runs",
		Long: `backup copies the store in DIR to the new directory COPY and checks the copy. A server may have the
store open. The copy has all writes that the server acknowledged before backup began.

To restore a backup, serve the copy: holdfast serve --data-dir COPY. The server issues the fencing
tokens after the backup a second time. Resources that check tokens have seen larger ones since, and
refuse these. To start without old data, serve an empty directory.

Exit codes:
  0   the copy is intact
  1   the store is damaged
  78  DIR has no store, or a store of another format, or COPY exists`,
		Example: `  holdfast backup /var/lib/holdfast/data /backup/holdfast-2026-11-22`,
		Args:    operands("DIR", "COPY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := zkserver.BackUp(args[0], args[1])
			return summarize(cmd.OutOrStdout(), args[1]+" is a copy of "+args[0], s, err)
		},
	}
}
