// Package status is the command status: one lock, its queue, and what is around it.
package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// about is the help.
const about = `status shows the holder of a lock and the queue behind it. FOR is how long the holder has held
the lock, or how long a waiter has waited. ≤ marks an upper bound. It counts from when the holder joined
the queue. A holder records the time of its acquire once it has held the lock for a second. Leaders
(elect) and other libraries never record it. FOR counts from a time by the server's clock to now, by the clock of
this machine. So it is wrong by the difference of the two clocks, which holdfast doctor shows.

process gone means that a run, lock, elect or shard on this machine is dead (Linux, same PID namespace), and its session
lasts until its job is gone or its timeout has passed. ls, top, graph, sessions and the page say it, too.

A lock is kept if a program has released it and keeps it for its next use, until another client queues.
If the program uses the lock again, status still shows it as kept for about a second. No session owns a
detached lock (holdfast lock --detached). status shows its id, which holdfast unlock needs.

status finds the lock in every layout and kind, and the locks of trees (run --tree) by the name that their users give.
With --layout, it shows the lock of that layout. It warns of nodes of other kinds of lock and of other layouts, because
their owners do not respect this queue. If nobody is in the queue, such nodes are in the way, and the lock is not free.

run --min-hold reserves a lock until a time, also after the holder has left the queue. status compares
that time with the clock of this host. Until then, the next holdfast command waits at the head of the queue, where
it is shown as the holder. status also shows the last run of --once-per. holdfast break ends both.

If the lock is in a deadlock of several locks, status says who waits for whom, and what to type to end it. For that, it
reads all locks of the namespace, if somebody waits for this one.

With -q, status prints nothing. -o wide adds columns. -o json and -o jsonl print one Lock: see
docs/reference/json.md. -o name prints the name of the lock. --no-headers prints the places alone.

Exit codes:
  0   the server has answered; with -q, the lock is held, kept or reserved, or something else is in the way
  1   with -q: the lock is free: nothing of any layout or kind is in the way
  2   wrong command line
  69  no server answered
  77  no permission: status cannot tell
  78  wrong configuration`

// New returns the command.
func New(g *conn.Flags) *cobra.Command {
	var quiet bool
	var p term.Printer
	var layout kind.Layout
	cmd := &cobra.Command{
		Use:     "status [flags] LOCK",
		Aliases: []string{"inspect"},
		Short:   "Show the holder of a lock and its queue",
		Long:    about,
		Example: `  holdfast status nightly
  holdfast status -q nightly && echo held`,
		Args: term.Operands("lock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := g.LockPath(args[0])
			if err != nil {
				return err
			}
			var l see.Lock
			var foreign []string
			err = g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) (err error) {
				l, foreign, err = readStatus(ctx, c, path, &layout, quiet)
				if err == nil && !quiet && (p.Format == "table" || p.Format == "wide") && l.Holders() > 0 && l.Waiters() > 0 {
					if d, err := deadlock.At(ctx, c, g, path); err == nil && d != nil { // what else is shown is right without it
						l.Deadlock = d.Lines()
					}
				}
				return err
			})
			for _, warning := range foreign {
				g.Log.Warn(cmd, "%s", term.Brief(term.Escape(warning)))
			}
			now := time.Now()
			switch {
			case err != nil:
				return err
			case quiet && (l.State() == string(locks.Free) || l.State() == string(locks.Waiting)):
				return term.ExitCode(term.ExitNo)
			case quiet:
				return nil
			}
			return l.Print(cmd.OutOrStdout(), &p, args[0], now)
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing: exit 0 if held, 1 if free")
	p.Register(cmd)
	layout.Register(cmd)
	return cmd
}

// readStatus reads a lock and what is around it. Unless quiet is set, it returns warnings about other nodes there. The
// error is zk.ErrNoAuth if it cannot tell who holds the lock.
func readStatus(ctx context.Context, c *zk.Client, path string, layout *kind.Layout, quiet bool) (l see.Lock, warned []string, err error) {
	spot, err := locks.At(ctx, c, path)
	if err != nil {
		return l, nil, err
	}
	now := time.Now()
	l = see.New(spot.Lock(layout.Asked(), now), now)
	if l.Unreadable {
		return l, nil, cmp.Or(spot.Doubt, fmt.Errorf("%w: the lock %s", zk.ErrNoAuth, path))
	}
	own := layout.Layout
	if named, err := holdfast.ParseLayout(l.Layout); err == nil {
		own = named
	}
	// A lock that the library refuses is in the way, too. A lock of a tree that is in use can be acquired, and others not.
	others := outside(see.Strangers(ctx, c, path, own), l)
	if len(l.Queue) == 0 {
		for _, n := range others {
			if !strings.HasPrefix(n.Kind, "the tree ") && n.Kind != "" {
				if at := locks.ForeignNode(n); !slices.Contains(l.Foreign, at) {
					l.Foreign = append(l.Foreign, at)
				}
			}
		}
	}
	if quiet {
		return l, nil, nil
	}
	warned = see.Warnings(others, own)
	if l.LastRun, err = see.Jobs(c, path, own).Every(time.Hour).Recorded(ctx); err == nil {
		err = spot.Doubt
	}
	switch {
	case err != nil && l.Holders() == 0: // otherwise the holder is shown, also to a user who cannot read this
		return l, nil, err
	case err != nil:
		warned = append(warned, "not all is shown: "+err.Error())
	}
	return l, warned, nil
}

func outside(nodes []holdfast.ForeignNode, l see.Lock) []holdfast.ForeignNode {
	return slices.DeleteFunc(nodes, func(n holdfast.ForeignNode) bool {
		return slices.ContainsFunc(l.Queue, func(p locks.Place) bool { return p.Path == n.Path }) || l.Kind == string(locks.Tree) && strings.HasPrefix(n.Kind, "the tree ") ||
			l.Kind == string(locks.Shards) && strings.HasPrefix(n.Path, l.Path+"/")
	})
}
