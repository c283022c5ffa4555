package hold

import (
	"strings"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/zk"
)

// slotTreeFlags are the flags of the kinds of lock that are made of others: slots and trees.
type slotTreeFlags struct {
	slot, tree bool
	prefer     []int // slots
}

func (f *slotTreeFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.slot, "slot", false, "with --of N: acquire one of the slots 0 to N-1, the lowest that is free, or K of them at once with --permits K. Nobody else has their numbers. The command of run has them in HOLDFAST_SLOTS, such as \"0 3\", and the lowest in HOLDFAST_SLOT. lock prints slot=N or slots=N,M")
	cmd.Flags().IntSliceVar(&f.prefer, "prefer-slots", nil, "with --slot: acquire those of these slots that are free, and then the lowest, such as 2,3. It does not wait for them while enough others are free")
	cmd.Flags().BoolVar(&f.tree, "tree", false, "acquire LOCK together with everything below it: a lock of db excludes db/a, and db/a and db/b go side by side. The first word of LOCK is the tree. All users of that name and of names below it must give --tree; others are refused")
}

// check refuses flags that do not go together.
func (f *slotTreeFlags) check(cmd *cobra.Command) error {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	switch {
	case f.slot && !given("of"):
		return term.Usage("", "--slot needs --of N, the number of slots")
	case f.slot && given("layout"):
		return term.Usage("", "--slot and --layout do not go together")
	case given("prefer-slots") && !f.slot:
		return term.Usage("", "--prefer-slots needs --slot")
	}
	if !f.tree {
		return nil
	}
	for _, name := range []string{"shared", "exclusive", "of", "slot", "also", "node"} {
		if given(name) {
			return term.Usage("", "--tree and --%s do not go together", name)
		}
	}
	return nil
}

// A place is where a lock is in a tree. It is empty without --tree.
type place struct {
	root  string   // the path of the tree
	below string   // of the lock in the tree
	above []string // the queues of its ancestors, the nearest first
}

// place splits the path of a lock. With --tree, it returns the path of the lock's queue.
func (f *slotTreeFlags) place(name, path string) (place, string, error) {
	if !f.tree {
		return place{}, path, nil
	}
	first, below, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	if strings.HasPrefix(first, conn.TreePart) {
		return place{}, "", term.Usage("choose another name", "lock name %q: names of queues in a tree begin with %s", term.Cut(name, 100), conn.TreePart)
	}
	p := place{root: strings.TrimSuffix(path, "/"+below), below: below}
	if below == "" {
		p.root = path
	}
	queue := p.root + "/" + zk.EscapeName("/")
	if below == "" {
		return p, queue, nil
	}
	name = ""
	for _, part := range strings.Split(below, "/") {
		p.above = append([]string{queue}, p.above...)
		name += zk.EscapeName("/" + part)
		queue = p.root + "/" + name
	}
	return p, queue, nil
}
