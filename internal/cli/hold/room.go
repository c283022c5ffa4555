package hold

import (
	"errors"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/term"
)

// roomFlags are --supersede, --queue-max and --queue-full: who of the waiters makes room for others.
type roomFlags struct {
	supersede bool
	max       int
	full      term.Choice
}

func (f *roomFlags) register(cmd *cobra.Command) {
	f.full.Options = []string{"new", "old"}
	cmd.Flags().BoolVar(&f.supersede, "supersede", false, "take the place of older waiters that were given --supersede, too: they exit 75. The holder is never touched, nor are other waiters")
	cmd.Flags().IntVar(&f.max, "queue-max", 0, "if this many wait for the lock already, exit 75 (default: no limit). See --queue-full")
	cmd.Flags().Var(&f.full, "queue-full", "with --queue-max: who exits 75, new (this newcomer) or old (the oldest waiter that was given --queue-full old, too)")
}

// check refuses flags that do not go together. try: there is no wait.
func (f *roomFlags) check(cmd *cobra.Command, try bool) error {
	name, limits := "--supersede", cmd.Flags().Changed("queue-max")
	switch {
	case limits && f.supersede:
		return term.Usage("", "--supersede and --queue-max do not go together")
	case cmd.Flags().Changed("queue-full") && !limits:
		return term.Usage("", "--queue-full needs --queue-max N, the number of waiters")
	case limits && f.max < 1:
		return term.Usage("to wait for nobody, give --try", "--queue-max %d: want 1 or more", f.max)
	case !f.supersede && !limits:
		return nil
	case limits:
		name = "--queue-max"
	}
	if try {
		return term.Usage("leave out --try, or give a --wait above 0", "%s and --try do not go together: it is about waiters", name)
	}
	return needsOneExclusive(cmd, name)
}

// SuccessorStatus says who has taken the place of a wait.
type SuccessorStatus struct {
	Owner string `json:"owner"`
	Why   string `json:"why"`
	Token string `json:"token"` // of its place in the queue
}

// madeRoom reports whether a wait has ended because it made room for others.
func madeRoom(err error) bool {
	return errors.Is(err, holdfast.ErrSuperseded) || errors.Is(err, holdfast.ErrQueueFull)
}
