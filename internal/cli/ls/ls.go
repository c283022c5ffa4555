// Package ls is the command ls, and the table that ls --watch keeps up to date.
package ls

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/zk"
)

// about is the help.
const about = `ls lists the locks whose names begin with PREFIX, or all locks in the namespace. A free lock is
listed until the server removes its empty node. ls finds locks in all layouts and kinds; with --layout, those of that
layout. A free lock is an empty node below which there was a node. ls lists it in the namespace, or below the directory that
PREFIX names: elsewhere, nobody can tell it from a node of another program. The lock of a tree (run --tree) has the name
that its users give.

HELD-FOR is how long the lock has been held. ≤ marks an upper bound. It counts from when the holder
joined the queue. A holder records the time of its acquire once it has held the lock for a second. Leaders
(elect) and other programs never record it. The state kept means that a program has released the
lock and keeps it for its next use, until somebody else asks. For about a second, a lock in use again is
still shown as kept. The state detached means that no session owns the lock: it ends with holdfast unlock,
or when it expires.

HELD-FOR, the times of waiters, --older-than and -o json count from a time by the server's clock to now, by the
clock of this machine. They are wrong by the difference of the two clocks, which holdfast doctor shows.

If a semaphore or a set of slots is listed, the column PERMITS has the permits in use and their limit.

The flags --held, --waiting, --owner and --older-than choose locks. A lock is listed if all of them choose
it.

The state reserved means that run --min-hold keeps the lock after its holder has left. The state waiting means that
the first waiter is about to acquire it, and foreign that nodes in no known form are in the way. Candidates of an election and the
workers of shards do not count as waiters.

The state unreadable means that you have no permission to read the lock, or a place in its queue. There may
be locks below it, which ls does not find.

-o wide adds columns, with the labels if a holder has some (--label). -o json prints one LockList, and -o jsonl one Lock a line: see docs/reference/json.md.
-o name prints the names alone.

With --watch, ls prints the locks again after each change, at most once a second. On a terminal, it
keeps the table up to date in place. ctrl-C ends it. It goes on when the connection breaks. On servers
before ZooKeeper 3.6, it looks for changes once a second. If no server answers, or answers too slowly, the
table on a terminal begins with OLD and says why, and the times in it stop.

Exit codes:
  0   the list is complete; with --watch: INT or TERM ended it
  2   wrong command line
  69  no server answered
  77  no permission
  78  wrong configuration`

// New returns the command.
func New(g *conn.Flags) *cobra.Command {
	var p term.Printer
	var filter see.Filter
	var layout kind.Layout
	var watch bool
	cmd := &cobra.Command{
		Use:        "ls [flags] [PREFIX]",
		SuggestFor: []string{"list", "locks"},
		Short:      "List locks, their holders and how many clients wait",
		Long:       about,
		Example: `  holdfast ls
  holdfast ls -o json db/
  holdfast ls --held --older-than 1h --sort hold      # what is stuck
  holdfast ls --owner 'ci@*' -o name                  # what this user holds or waits for
  holdfast ls --waiting --sort wait --watch`,
		Args: term.Operands("[prefix]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := filter.Check(); err != nil {
				return err
			}
			prefix, err := conn.LockPrefix(g, args)
			if err != nil {
				return err
			}
			list := func(ctx context.Context, c *zk.Client) (found []see.Lock, now time.Time, err error) {
				found, err = see.Query{Prefix: prefix, Namespace: g.Namespace, Layout: layout.Asked()}.Read(ctx, c)
				now = time.Now()
				return filter.Apply(found, now), now, err
			}
			if watch {
				return lsWatch(g, cmd, &p, prefix, list)
			}
			var found []see.Lock
			var now time.Time
			err = g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) (err error) {
				found, now, err = list(ctx, c)
				return err
			})
			if err != nil {
				return err
			}
			return term.Show(cmd.OutOrStdout(), &p, see.Listing(g.LockName, found, now))
		},
	}
	p.Register(cmd)
	filter.Register(cmd)
	layout.Register(cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "print the locks again after each change")
	return cmd
}
