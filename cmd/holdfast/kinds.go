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
	cmd.Flags().Var(l, "layout", "how the lock's nodes are named: curator, leaderlatch, kazoo, go-zookeeper, writelock, hostrw, sessionid, article, named:NAME for one of several locks in a directory, or form:PATTERN for names of your own, where PATTERN is a name with {uuid}, {hex}, {session} or {host} in it. Everyone must use the same layout for a lock")
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
	cmd.Flags().BoolVarP(&f.shared, "shared", "s", false, "lock as a reader: readers share with readers only")
	cmd.Flags().BoolVarP(&f.exclusive, "exclusive", "x", false, "lock as a writer. Readers of other libraries wait for a writer only; readers of holdfast wait for every exclusive lock")
	cmd.Flags().IntVar(&f.permits, "permits", 1, "with --of: take this many permits, all or none")
	cmd.Flags().IntVar(&f.limit, "of", 0, "the lock is a semaphore with this many permits; everyone must pass the same number")
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
		return usage("", "--permits needs --of TOTAL")
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

// strangers looks for nodes in the lock's directory whose makers may take no notice of us.
func strangers(ctx context.Context, c *zk.Client, path string, layout holdfast.Layout) []holdfast.ForeignNode {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	nodes, err := holdfast.Foreign(ctx, c, path, holdfast.WithLayout(layout))
	if err != nil {
		return nil // Lock has looked for the worst of them itself
	}
	return nodes
}

// lonely fails if a lock's directory has nodes that look like places in a queue, in a form
// that no layout knows. Lock passes such nodes over. A command that must run alone does not
// start beside them.
func (k *taker) lonely(ctx context.Context, c *zk.Client) error {
	if k.kind.node {
		return nil // there is no directory
	}
	for _, path := range k.paths() {
		for _, node := range strangers(ctx, c, path, k.kind.layout.Layout) {
			if node.Kind == "" {
				return misconfigured("name the form with --layout form:PATTERN, choose another name for the lock, or remove the node if it is not used",
					"%s: the node %s looks like a place in a queue, but its name is in no form that layout %s or another one knows: its owner may run beside us",
					k.called(path), node.Path, k.kind.layout.Name)
			}
		}
	}
	return nil
}

// warnings are the lines of status about nodes outside the queue that it shows, one for each
// kind.
func warnings(nodes []holdfast.ForeignNode, layout holdfast.Layout) []string {
	var kinds []string
	count, example := make(map[string]int), make(map[string]string)
	for _, n := range nodes {
		if count[n.Kind]++; count[n.Kind] == 1 {
			kinds = append(kinds, n.Kind)
			example[n.Kind] = n.Path
		}
	}
	var all []string
	for _, kind := range kinds {
		what := fmt.Sprintf("%d node(s) of %s", count[kind], kind)
		if kind == "" {
			what = fmt.Sprintf("%d node(s) in a form that no layout knows", count[kind])
		}
		all = append(all, fmt.Sprintf("%s, such as %s: their owners do not respect the queue shown, which is in layout %s", what, example[kind], layout.Name))
	}
	return all
}
