package hold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/outer"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/lend"
	"holdfast/internal/locks"
	"holdfast/reserve"
	"holdfast/zk"
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
	cmd.Flags().IntVar(&f.permits, "permits", 1, "with --of: acquire this many permits, all or none")
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
	return nil
}

// locker returns the lock of the flags, or a MultiLock with --also.
func (k *Taker) locker(c *zk.Client) holdfast.Locker {
	f := k.Kind
	layout := holdfast.WithLayout(f.Layout.Layout)
	who := []holdfast.Option{
		holdfast.WithOwner(k.Who), holdfast.WithReason(k.why), holdfast.WithLabels(k.Labels), lend.WithinSession(outer.Session(k.Target.URL)).(holdfast.Option), k.Metrics.Observed(),
	}
	opts := append(slices.Clip(who), layout)
	one := func(path string) holdfast.Locker {
		switch {
		case f.shared:
			return holdfast.NewRWMutex(c, path, opts...).RLocker()
		case f.exclusive:
			return holdfast.NewRWMutex(c, path, opts...)
		case f.slot:
			return holdfast.NewSlots(c, path, f.limit, who...).Locker()
		case f.limit > 0:
			return holdfast.NewSemaphore(c, path, f.limit, opts...).Locker(f.permits)
		case f.node:
			return holdfast.NewNodeLock(c, path, who...)
		case k.detached.on:
			k.claims = &claimer{Detached: holdfast.NewDetached(c, path, k.detached.expires, opts...)}
			return k.claims
		}
		return holdfast.NewMutex(c, path, opts...)
	}
	switch {
	case f.tree:
		return holdfast.NewTree(c, k.root, opts...).Path(k.below)
	case k.Campaign != nil:
		return k.Campaign(c)
	case k.detached.on: // it has no session that could wait at the head of the queue
		return one(k.Path)
	case len(k.also) == 0:
		return reserve.Locker(one(k.Path))
	}
	all := []holdfast.Locker{one(k.Path)}
	for _, path := range k.also {
		all = append(all, one(path))
	}
	return reserve.Locker(holdfast.NewMultiLock(all...))
}

// resized calls acquire with the lock, and again after it has changed the number of permits or slots, if --resize asks
// for that.
func (k *Taker) resized(ctx context.Context, c *zk.Client, acquire func(holdfast.Locker) (*holdfast.Hold, error)) (*holdfast.Hold, error) {
	h, err := acquire(k.locker(c))
	if !k.Kind.resize || !errors.Is(err, holdfast.ErrLimit) {
		return h, err
	}
	if k.Kind.slot {
		err = holdfast.NewSlots(c, k.Path, 0).SetLimit(ctx, k.Kind.limit)
	} else {
		err = holdfast.NewSemaphore(c, k.Path, 0, holdfast.WithLayout(k.Kind.Layout.Layout)).SetLimit(ctx, k.Kind.limit)
	}
	if err != nil {
		return nil, err
	}
	return acquire(k.locker(c))
}

// paths returns the paths of all locks of the command.
func (k *Taker) paths() []string { return append([]string{k.Path}, slices.Concat(k.above, k.also)...) }

// lonely fails if a lock's directory has nodes that look like places in a queue, but have names of no
// layout. Lock ignores such nodes. Their owners may hold the lock, so no command may start.
func (k *Taker) lonely(ctx context.Context, c *zk.Client) error {
	if k.Kind.node {
		return nil // there is no directory
	}
	for _, path := range k.paths() {
		for _, node := range see.Strangers(ctx, c, path, k.Kind.Layout.Layout) {
			if node.Kind == "" {
				return term.Misconfigured(shareHint(node.Path),
					"%s: the node %s looks like a place in a queue, but its name fits neither layout %s nor another one: its owner may hold the lock at the same time",
					k.called(path), node.Path, k.Kind.Layout.Name)
			}
		}
	}
	return nil
}

// shareHint says what to do about a node with a number in no known form. Its form is guessed from its name.
func shareHint(node string) string {
	pattern := "form:" + locks.Pattern(node[strings.LastIndexByte(node, '/')+1:])
	if _, err := holdfast.ParseLayout(pattern); err != nil {
		pattern = "form:PATTERN"
	}
	return fmt.Sprintf("if its program is to share this lock, give --layout '%s': the program must be able to read our names. Otherwise choose another name for the lock, or remove the node if it is unused", pattern)
}
