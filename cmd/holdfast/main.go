package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/supervise"
)

func main() { os.Exit(Main()) }

// Main runs the command line of this process and returns its exit code. main and the scripts of the
// tests share it.
func Main() int {
	cmd, err := newRoot().ExecuteC()
	code := term.Report(os.Stderr, formatOf(cmd), cmd.Name(), err)
	if key, ok := errors.AsType[term.Interrupted](err); ok {
		supervise.Die(key.Signal, key.Group)
	}
	return code
}

// formatOf returns the format of the message about the end of cmd. The settings may not have been read when
// it failed.
func formatOf(cmd *cobra.Command) term.LogFormat {
	flag := cmd.Flags().Lookup("log-format")
	if flag == nil {
		return "text"
	}
	if client := cmd.Flags().Lookup("profile") != nil; client && !flag.Changed {
		_ = flag.Value.Set(os.Getenv(conn.EnvName("log-format"))) // if it is wrong, the error says so in text
	}
	return term.LogFormat(flag.Value.String())
}
