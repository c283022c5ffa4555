package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/zk"
)

// layoutFlag is the flag of the commands that look at a lock's nodes.
type layoutFlag struct{ holdfast.Layout }

func (l *layoutFlag) register(cmd *cobra.Command) {
	l.Layout = holdfast.LayoutCurator
	cmd.Flags().Var(l, "layout", "whose locks these are: curator, leaderlatch, kazoo, go-zookeeper, writelock, hostrw, sessionid or named:NAME. All who use a lock need the same")
}

func (l *layoutFlag) String() string { return l.Name }

// Type is what the help calls the flag's value.
func (l *layoutFlag) Type() string { return "name" }

// Set accepts the name of a layout.
func (l *layoutFlag) Set(name string) (err error) {
	l.Layout, err = holdfast.ParseLayout(name)
	return err
}

// kindFlags say which kind of lock a command takes.
type kindFlags struct {
	shared, exclusive, node bool
	permits, limit          int
	also                    []string
	layout                  layoutFlag
}

func (f *kindFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.shared, "shared", "s", false, "as a reader: beside other readers, and nobody else")
	cmd.Flags().BoolVarP(&f.exclusive, "exclusive", "x", false, "as a writer, which readers of other libraries wait for too; those of holdfast do without it")
	cmd.Flags().IntVar(&f.permits, "permits", 1, "with --of: take so many permits, all or none")
	cmd.Flags().IntVar(&f.limit, "of", 0, "the lock is a semaphore with so many permits; who says another number is refused")
	cmd.Flags().StringArrayVar(&f.also, "also", nil, "take this lock too, all or none; can be repeated. The order does not matter")
	cmd.Flags().BoolVar(&f.node, "node", false, "the lock is one node, without a queue")
	f.layout.register(cmd)
}

// check says what does not go together.
func (f *kindFlags) check(cmd *cobra.Command) error {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	for _, pair := range [][2]string{
		{"shared", "exclusive"}, {"shared", "node"}, {"exclusive", "node"}, {"layout", "node"},
		{"of", "shared"}, {"of", "exclusive"}, {"of", "node"}, {"of", "also"},
	} {
		if given(pair[0]) && given(pair[1]) {
			return usage("", "--%s and --%s do not go together", pair[0], pair[1])
		}
	}
	switch {
	case given("permits") && !given("of"):
		return usage("", "--permits says how many, --of has to say how many there are")
	case given("of") && (f.limit < 1 || f.permits < 1 || f.permits > f.limit):
		return usage("", "--permits %d --of %d: want at least one, and not more than there are", f.permits, f.limit)
	}
	return nil
}

// permits is several permits of a semaphore as one lock.
type permits struct {
	*holdfast.Semaphore
	n int
}

func (p permits) Lock(ctx context.Context) (*holdfast.Hold, error) { return p.AcquireN(ctx, p.n) }
func (p permits) TryLock(ctx context.Context) (*holdfast.Hold, error) {
	return p.TryAcquireN(ctx, p.n)
}

// candidate is the campaign of an election as a lock. It is always waited for.
type candidate struct {
	*holdfast.Election
	value string
}

func (c candidate) Lock(ctx context.Context) (*holdfast.Hold, error) {
	return c.Campaign(ctx, []byte(c.value))
}

func (c candidate) TryLock(context.Context) (*holdfast.Hold, error) {
	return nil, errors.New("an election is always waited for")
}

// locker is what the flags ask for.
func (k *taker) locker(c *zk.Client) holdfast.Locker {
	f := k.kind
	opts := []holdfast.Option{holdfast.WithOwner(owner()), holdfast.WithReason(k.why), holdfast.WithLayout(f.layout.Layout)}
	one := func(path string) holdfast.Locker {
		switch {
		case f.shared:
			return holdfast.NewRWMutex(c, path, opts...).RLocker()
		case f.exclusive:
			return holdfast.NewRWMutex(c, path, opts...)
		case f.limit > 0:
			return permits{holdfast.NewSemaphore(c, path, f.limit, opts...), f.permits}
		case f.node:
			return holdfast.NewNodeLock(c, path, opts...)
		case k.campaign:
			return candidate{holdfast.NewElection(c, path, opts...), k.value}
		}
		return holdfast.NewMutex(c, path, opts...)
	}
	if len(k.also) == 0 {
		return one(k.path)
	}
	all := []holdfast.Locker{one(k.path)}
	for _, path := range k.also {
		all = append(all, one(path))
	}
	return holdfast.NewMultiLock(all...)
}

// paths are those of all the locks that are taken.
func (k *taker) paths() []string { return append([]string{k.path}, k.also...) }

// mixed warns of nodes in a lock's directory that the layout takes no notice of, though
// another does: those who made them do not wait for us, nor we for them.
func mixed(names []string, layout holdfast.Layout) string {
	for _, other := range []holdfast.Layout{
		holdfast.LayoutCurator, holdfast.LayoutLeaderLatch, holdfast.LayoutKazoo, holdfast.LayoutHostRW, holdfast.LayoutSessionID,
	} {
		n := 0
		for _, name := range names {
			if other.Contends(name) && !layout.Contends(name) {
				n++
			}
		}
		if n > 0 {
			return fmt.Sprintf("%d of the nodes are in the layout %s, not %s: those who made them take no notice of the queue shown", n, other.Name, layout.Name)
		}
	}
	return ""
}
