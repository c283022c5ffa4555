package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"holdfast/zkserver"
)

func newCheck() *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR",
		Short: "Check the store in a directory",
		Long: `check reads the whole store in DIR and changes nothing. No server may have the store open.

Exit codes:
  0   the store is intact
  1   the store is damaged
  69  a server has the store open
  78  DIR has no store, or a store of another format`,
		Example: `  holdfast check /var/lib/holdfast/data`,
		Args:    operands("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := zkserver.Check(args[0])
			return summarize(cmd.OutOrStdout(), args[0]+" is intact", s, err)
		},
	}
}

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

// summarize prints the contents of a store, or turns err into a fault with an exit code and a hint.
func summarize(w io.Writer, what string, s zkserver.Summary, err error) error {
	switch {
	case errors.Is(err, zkserver.ErrDamaged):
		return &fault{exitNo, err, "restore a backup, or move the directory away to start with an empty one"}
	case errors.Is(err, zkserver.ErrInUse):
		return &fault{exitUnavailable, err, "stop the server first, or run holdfast backup, which copies the store and checks the copy"}
	case errors.Is(err, zkserver.ErrFormat), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist):
		return misconfigured("", "%w", err)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(w, "%s: %d nodes, %d sessions, %d commits, %d bytes\n", what, s.Znodes, s.Sessions, s.Commits, s.Bytes)
	return err
}
