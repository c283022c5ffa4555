package hold

import (
	"github.com/spf13/cobra"

	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/term"
)

// KindFlags are the flags that choose the kind of lock.
type KindFlags struct {
	shared, exclusive, node bool
	permits, limit          int
	resize                  bool
	also                    []string
	Layout                  kind.Layout
	slotTreeFlags
}

func (f *KindFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.shared, "shared", "s", false, "acquire the lock as a reader; readers share it with readers only")
	cmd.Flags().BoolVarP(&f.exclusive, "exclusive", "x", false, "acquire the lock as a writer. Give it if readers of other libraries use the lock: they wait for writers only. Readers of holdfast wait for every exclusive lock")
	cmd.Flags().IntVar(&f.permits, "permits", 1, "with --of: acquire this many permits, all or none; with --slot, this many slots")
	cmd.Flags().IntVar(&f.limit, "of", 0, "the lock is a semaphore with this many permits. All users must give the same number. A new number counts when nobody has a permit or waits")
	cmd.Flags().BoolVar(&f.resize, "resize", false, "with --of N: if others use another number, change it to N. Nobody loses a permit. Waiters with another number fail")
	cmd.Flags().StringArrayVar(&f.also, "also", nil, "acquire this lock, too, all or none; repeatable, in any order")
	cmd.Flags().BoolVar(&f.node, "node", false, "the lock is a single node without a queue")
	f.slotTreeFlags.register(cmd)
	f.Layout.Register(cmd)
}

// check refuses flags that do not go together.
func (f *KindFlags) check(cmd *cobra.Command) error {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	for _, pair := range [][2]string{
		{"shared", "exclusive"}, {"shared", "node"}, {"exclusive", "node"}, {"layout", "node"},
		{"of", "shared"}, {"of", "exclusive"}, {"of", "node"}, {"of", "also"},
	} {
		if given(pair[0]) && given(pair[1]) {
			return term.Usage("", "--%s and --%s do not go together", pair[0], pair[1])
		}
	}
	if err := f.slotTreeFlags.check(cmd); err != nil {
		return err
	}
	switch {
	case given("permits") && !given("of"):
		return term.Usage("", "--permits needs --of TOTAL")
	case f.resize && !given("of"):
		return term.Usage("", "--resize needs --of N, the new number")
	case given("of") && f.limit < 1:
		return term.Usage("", "--of %d: want 1 or more", f.limit)
	case given("of") && (f.permits < 1 || f.permits > f.limit):
		return term.Usage("", "--permits %d --of %d: want 1 or more permits, and at most as many as --of", f.permits, f.limit)
	}
	for _, number := range f.prefer {
		if number < 0 || number >= f.limit {
			return term.Usage("", "--prefer-slots %d: with --of %d, the slots are 0 to %d", number, f.limit, f.limit-1)
		}
	}
	return nil
}

// needsOneExclusive refuses flag with kinds of lock that several commands hold at once, and with several locks.
func needsOneExclusive(cmd *cobra.Command, flag string) error {
	for _, other := range []string{"shared", "of", "also", "node", "slot", "tree"} {
		if cmd.Flags().Changed(other) {
			return term.Usage("", "%s and --%s do not go together: it needs one lock with one holder at a time", flag, other)
		}
	}
	return nil
}
