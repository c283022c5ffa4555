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
		Short: "Check the store of a directory",
		Long: `check reads the store of a directory that no server has open, from beginning to end, and changes
nothing. Exit codes: 0 the store is whole, 1 it is damaged, 69 a server has it open, 78 there is no
store, or it has another format.`,
		Example: `  holdfast check /var/lib/holdfast/data`,
		Args:    operands("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := zkserver.Check(args[0])
			return summarize(cmd.OutOrStdout(), args[0]+" is whole", s, err)
		},
	}
}

func newBackup() *cobra.Command {
	return &cobra.Command{
		Use:   "backup DIR COPY",
		Short: "Copy the store of a directory, which may be served meanwhile",
		Long: `backup copies the store of DIR to the new directory COPY, and checks the copy. A server may have the
store open: the copy has all that was acknowledged when backup began. To restore, serve COPY:
holdfast serve --data-dir COPY. Exit codes: 0 the copy is whole, 1 the store is damaged, 78 there is no
store, it has another format, or COPY exists.

A server of the copy gives out the fencing tokens of its time again. Resources that check tokens have
seen larger ones since, and refuse them. To start again without old data, serve an empty directory.`,
		Example: `  holdfast backup /var/lib/holdfast/data /backup/holdfast-2026-11-22`,
		Args:    operands("DIR", "COPY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := zkserver.BackUp(args[0], args[1])
			return summarize(cmd.OutOrStdout(), args[1]+" is a copy of "+args[0], s, err)
		},
	}
}

// summarize prints what is in a store, or turns err into a fault with an exit code and a hint.
func summarize(w io.Writer, what string, s zkserver.Summary, err error) error {
	switch {
	case errors.Is(err, zkserver.ErrDamaged):
		return &fault{exitNo, err, "restore a backup, or move the directory away to begin with an empty one"}
	case errors.Is(err, zkserver.ErrInUse):
		return &fault{exitUnavailable, err, "stop the server first, or make a copy with holdfast backup, which checks the copy"}
	case errors.Is(err, zkserver.ErrFormat), errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrExist):
		return misconfigured("", "%w", err)
	case err != nil:
		return err
	}
	_, err = fmt.Fprintf(w, "%s: %d nodes, %d sessions, %d commits, %d bytes\n", what, s.Znodes, s.Sessions, s.Commits, s.Bytes)
	return err
}
