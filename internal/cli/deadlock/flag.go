package deadlock

import (
	"github.com/spf13/cobra"

	"holdfast/internal/cli/term"
)

// A Flag is --on-deadlock.
type Flag struct{ choice term.Choice }

// Register registers the flag. ends says how the victim ends.
func (f *Flag) Register(cmd *cobra.Command, ends string) {
	f.choice.Options = []string{"wait", "fail"}
	cmd.Flags().Var(&f.choice, "on-deadlock", "when this wait is in a deadlock: wait, or fail. In a cycle of waits, the youngest wait with fail "+ends+", and the others go on")
}

// Fail reports whether the wait gives up if it is the victim.
func (f *Flag) Fail() bool { return f.choice.Chosen == 1 }
