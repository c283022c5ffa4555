// Package graph is the command graph: who waits for whom, and the deadlocks.
package graph

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
	"holdfast/zk"
)

// graphFlags are the flags of graph.
type graphFlags struct {
	dot, cycles, exitCode bool
	format                term.Format
	layout                kind.Layout
}

// about is the help.
const about = `graph reads all locks whose names begin with PREFIX, or all locks in the namespace, and shows who waits for
whom. PREFIX / is the whole server. It knows the queues of Curator, kazoo, go-zookeeper and others by the
names of their nodes; nodes in a form of your own need --layout.

First come the cycles. Each owner in a cycle waits for the next one, so none of them can proceed until one
gives up, for example at the end of its --wait. graph suggests a victim: the owner that holds the fewest locks, and among equals the one that began to wait
last. If the victim gives up or ends, the cycle is broken. graph says what to type to take the lock from it. Then come the owners that wait for nobody and
block others, the one that blocks most first, each with its waiters below it.

An owner is a session. A holdfast run inside the command of another holdfast run belongs to the owner of the
outer one, unless its environment was cleared (sudo, ssh). Two clients of one program are two owners.
A waiter for permits or slots waits for their holders: it is stuck if too few of these can proceed. It also waits for a
waiter ahead that needs more than are free. graph assumes that a waiter of another library needs one.

graph reads the locks one after the other, so a cycle in the first reading may never have existed. It reads
the locks of each cycle again, and reports the cycle only if holders and waiters are the same nodes as before.
If a program keeps a lock of the cycle for its next use, graph waits for a second before it reads again: the
program gives the lock up, unless it has taken it again.

A warning names nodes that graph has no permission to read, and nodes whose names are in no known form. Locks
there are not in the graph. With -o json, they are in the fields unreadable and unrecognized.

How long a waiter has waited is the time from its join, by the server's clock, to now, by the clock of this
machine. It is wrong by the difference of the two clocks, which holdfast doctor shows.

Limits. graph sees sessions, not threads. If threads of one program use locks independently, a cycle may end
by itself: graph says so where it sees that a session waits for several locks at once. graph reports
no cycle of one session: another thread of it may hold the lock. The candidates of an
election may wait for it, or go on meanwhile: they count in cycles, and nobody is shown to block them. The workers of shards go on. A waiter for a lock of run --node has no node and is not seen. kazoo's Lock is taken for its
WriteLock, which also waits for readers: the names of their nodes are the same.

Exit codes:
  0   the graph is printed. It is complete if there is no warning
  1   with --cycles or --exit-code: there is a cycle
  2   wrong command line
  69  no server answered
  77  no permission
  78  wrong configuration`

// New returns the command.
func New(g *conn.Flags) *cobra.Command {
	var f graphFlags
	cmd := &cobra.Command{
		Use:   "graph [flags] [PREFIX]",
		Short: "Show who waits for whom, and name the deadlocks",
		Long:  about,
		Example: `  holdfast graph
  holdfast graph --cycles /                   # exit 1 if there is a deadlock on the server
  holdfast graph --dot db/ | dot -Tsvg > locks.svg`,
		Args: term.Operands("[prefix]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.dot && cmd.Flags().Changed("output") {
				return term.Usage("leave out --dot or --output", "--dot and --output do not go together")
			}
			prefix, err := conn.LockPrefix(g, args)
			if err != nil {
				return err
			}
			w, err := readWaits(g, cmd, prefix, &f)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			switch {
			case f.dot:
				err = w.dot(out, f.cycles)
			case f.format == "json":
				err = term.JSON(out, w.document(f.cycles))
			default:
				err = w.print(out, f.cycles)
			}
			if err == nil && (f.exitCode || f.cycles) && len(w.Cycles) > 0 {
				err = term.ExitCode(term.ExitNo)
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&f.dot, "dot", false, "print the graph for Graphviz")
	cmd.Flags().BoolVar(&f.cycles, "cycles", false, "show the cycles only, and exit 1 if there is one")
	cmd.Flags().BoolVar(&f.exitCode, "exit-code", false, "exit 1 if there is a cycle, as --cycles does")
	cmd.Flags().Var(&f.layout, "layout", "read locks in this layout only, see holdfast run --help (default: the names of the nodes tell the layout)")
	f.format.Register(cmd)
	return cmd
}

// waits is a graph as graph prints it.
type waits struct {
	*waitgraph.Blocking
	words   deadlock.Words
	g       *conn.Flags
	now     time.Time
	locks   int // that were read
	strange []string
	denied  []string
}

// readWaits reads the locks and makes the graph. Cycles are from two readings.
func readWaits(g *conn.Flags, cmd *cobra.Command, prefix string, f *graphFlags) (*waits, error) {
	var w *waits
	err := g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) (err error) {
		w, err = waitsBelow(ctx, g, c, prefix, f.layout.Asked())
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(w.strange) > 0 {
		g.Log.Warn(cmd, "%d node(s), such as %s, look like places in a queue, but are not in the graph: their names fit no layout that was looked for. Give --layout form:PATTERN",
			len(w.strange), term.Escape(term.Cut(w.strange[0], 200)))
	}
	if len(w.denied) > 0 {
		g.Log.Warn(cmd, "no permission to read %d node(s), such as %s: locks there are not in the graph", len(w.denied), term.Escape(term.Cut(w.denied[0], 200)))
	}
	return w, nil
}

// waitsBelow reads the locks and makes the graph.
func waitsBelow(ctx context.Context, g *conn.Flags, c *zk.Client, prefix string, layout *locks.Layout) (*waits, error) {
	s, err := locks.Read(ctx, c, locks.Query{Prefix: prefix, Layout: layout})
	if err != nil {
		return nil, err
	}
	found := s.Graph()
	graph, err := locks.Confirmed(ctx, c, found, layout)
	if err != nil {
		return nil, err
	}
	w := newWaits(g, graph, time.Now())
	w.locks, w.strange, w.denied = len(found), s.Strange, s.Denied
	return w, nil
}

// newWaits returns a graph for printing.
func newWaits(g *conn.Flags, graph *waitgraph.Graph, now time.Time) *waits {
	return &waits{Blocking: graph.Blocking(), words: deadlock.Words{Graph: graph, LockName: g.LockName}, g: g, now: now}
}

// owner names an owner, and says whether its process is gone.
func (w *waits) owner(o int) string {
	if w.gone(o) {
		return w.words.Owner(o) + show.ProcessGone
	}
	return w.words.Owner(o)
}

// step describes a wait.
func (w *waits) step(s waitgraph.Step) string {
	return fmt.Sprintf("waits for %s, %s", w.words.Lock(s.Wait), w.words.How(s))
}

// print prints the cycles and, unless cycles is set, the trees of waiters.
func (w *waits) print(out io.Writer, cycles bool) error {
	var b strings.Builder
	for i, c := range w.Cycles {
		w.printCycle(&b, i, c)
	}
	if !cycles {
		w.printTrees(&b)
	}
	if b.Len() == 0 {
		waiting := 0
		for _, o := range w.Owners {
			waiting += len(o.Waits)
		}
		fmt.Fprintf(&b, "no %s: %s, %s\n", map[bool]string{true: "cycle", false: "waits"}[cycles], count(w.locks, "lock"), count(waiting, "waiter"))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

func (w *waits) printCycle(b *strings.Builder, i int, c waitgraph.Cycle) {
	fmt.Fprintf(b, "cycle %d of %d, for %s: ", i+1, len(w.Cycles), term.Age(c.Since, w.now))
	if len(c.Owners) == 1 {
		b.WriteString("1 owner waits for itself\n")
	} else {
		fmt.Fprintf(b, "%d owners wait for each other\n", len(c.Owners))
	}
	for j, s := range c.Steps {
		fmt.Fprintf(b, "  %s %s %s\n", w.owner(s.Owner), w.step(s), w.owner(c.Steps[(j+1)%len(c.Steps)].Owner))
	}
	if more := len(c.Owners) - len(c.Steps); more > 0 {
		fmt.Fprintf(b, "  %s more in cycles with these\n", count(more, "owner"))
	}
	fmt.Fprintf(b, "  victim: %s, which holds %s\n", w.owner(c.Victim), count(w.LocksHeld(c.Victim), "lock"))
	fmt.Fprintf(b, "  %s\n", w.words.End(&c))
	if c.Rest {
		b.WriteString("  one victim is not enough: run graph again after its end\n")
	}
	for _, o := range c.Threads {
		fmt.Fprintf(b, "  %s has several threads in queues, so the cycle may end by itself\n", w.owner(o))
	}
	b.WriteString("\n")
}

// printTrees prints the owners that block others and wait for nobody, and who waits behind the cycles.
func (w *waits) printTrees(b *strings.Builder) {
	printed := make(map[waitgraph.Ref]bool)
	for _, r := range w.Roots() {
		state := ""
		if i := w.InCycle[r.Owner]; i > 0 {
			state = fmt.Sprintf(", is in cycle %d", i)
		}
		fmt.Fprintf(b, "%s blocks %s%s\n", w.owner(r.Owner), count(r.Blocks, "owner"), state)
		w.printBelow(b, r.Owner, "", printed)
	}
}

func (w *waits) printBelow(b *strings.Builder, owner int, indent string, printed map[waitgraph.Ref]bool) {
	rows := w.Below(owner)
	for i, e := range rows {
		branch, further := "├─ ", "│  "
		if i == len(rows)-1 {
			branch, further = "└─ ", "   "
		}
		place := w.Place(e.Wait)
		fmt.Fprintf(b, "%s%s%s waits for %s, position %d, %s", indent, branch, w.owner(e.Owner), w.words.Lock(e.Wait), w.Position(e.Wait), term.Age(place.Since, w.now))
		if place.Reason != "" {
			fmt.Fprintf(b, " (%q)", term.Escape(place.Reason))
		}
		if printed[e.Wait] { // two owners with several waits block each other's threads
			b.WriteString(", see above\n")
			continue
		}
		printed[e.Wait] = true
		b.WriteString("\n")
		switch {
		case len(indent) < 300:
			w.printBelow(b, e.Owner, indent+further, printed)
		case w.Blocked(e.Owner) > 0:
			fmt.Fprintf(b, "%s%s└─ … %s more; -o json has them\n", indent, further, count(w.Blocked(e.Owner), "owner"))
		}
	}
}
