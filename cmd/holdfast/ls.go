package main

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	layouts "holdfast/layout"
	"holdfast/zk"
)

func newLs(g *conn.Flags) *cobra.Command {
	var p term.Printer
	var filter lsFilter
	var layout layoutFlag
	var watch bool
	cmd := &cobra.Command{
		Use:        "ls [flags] [PREFIX]",
		SuggestFor: []string{"list", "locks"},
		Short:      "List locks, their holders and how many clients wait",
		Long: `ls lists the locks whose names begin with PREFIX, or all locks in the namespace. A free lock is
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
  78  wrong configuration`,
		Example: `  holdfast ls
  holdfast ls -o json db/
  holdfast ls --held --older-than 1h --sort hold      # what is stuck
  holdfast ls --owner 'ci@*' -o name                  # what this user holds or waits for
  holdfast ls --waiting --sort wait --watch`,
		Args: term.Operands("[prefix]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := filter.check(); err != nil {
				return err
			}
			prefix, err := conn.LockPrefix(g, args)
			if err != nil {
				return err
			}
			list := func(ctx context.Context, c *zk.Client) (found []located, now time.Time, err error) {
				found, err = lockQuery{prefix, g.Namespace, layout.asked()}.read(ctx, c)
				now = time.Now()
				return filter.apply(found, now), now, err
			}
			if watch {
				return lsWatch(g, cmd, &p, prefix, list)
			}
			var found []located
			var now time.Time
			err = g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) (err error) {
				found, now, err = list(ctx, c)
				return err
			})
			if err != nil {
				return err
			}
			return term.Show(cmd.OutOrStdout(), &p, lockListing(g, found, now))
		},
	}
	p.Register(cmd)
	filter.register(cmd)
	layout.register(cmd)
	cmd.Flags().BoolVar(&watch, "watch", false, "print the locks again after each change")
	return cmd
}

// labelsOf returns the labels of a place, such as the trace that it belongs to.
func labelsOf(e holdfast.Entry) string {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(e.Labels)) {
		labels = append(labels, key+"="+e.Labels[key])
	}
	return strings.Join(labels, ",")
}

// lockListing returns the locks that ls has found, for the formats of -o.
func lockListing(g *conn.Flags, found []located, now time.Time) term.Listing[located] {
	// of returns the text of a cell about the first place in the queue.
	of := func(f func(holdfast.Entry) string) func(located) string {
		return func(l located) string {
			if len(l.queue) == 0 {
				return ""
			}
			return f(l.queue[0].Entry)
		}
	}
	columns := []term.Column[located]{
		{Head: "NAME", Cell: func(l located) string { return g.LockName(l.path) }},
		{Head: "STATE", Cell: (located).state, Ink: func(l located) term.Ink { return inkOf(l.state()) }},
		{Head: "HOLDER", Cell: (located).holder},
		{Head: "HELD-FOR", Cell: of(func(e holdfast.Entry) string { return forState(e, now) })},
		{Head: "WAITERS", Cell: func(l located) string { return strconv.Itoa(l.waiters()) }},
		{Head: "TOKEN", Cell: of(func(e holdfast.Entry) string { return strconv.FormatInt(e.Token, 10) })},
		{Head: "PERMITS", Cell: func(l located) string { return l.permits.String() }},
		{Head: "MODE", Wide: true, Cell: of(show.Mode)},
		{Head: "SINCE", Wide: true, Cell: of(func(e holdfast.Entry) string { return e.Since.UTC().Format(time.RFC3339) })},
		{Head: "SESSION", Wide: true, Cell: of(show.Session)},
		{Head: "LAYOUT", Wide: true, Cell: func(l located) string { return l.layout }},
		{Head: "PATH", Wide: true, Cell: func(l located) string { return l.path }},
		{Head: "LABELS", Wide: true, Cell: of(labelsOf)},
		{Head: "WHY", Cell: of(func(e holdfast.Entry) string { return e.Reason })},
	}
	if !slices.ContainsFunc(found, func(l located) bool { return l.layout != "" && l.layout != layouts.Curator.Name }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[located]) bool { return c.Head == "LAYOUT" })
	}
	if !slices.ContainsFunc(found, func(l located) bool { return l.permits != nil }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[located]) bool { return c.Head == "PERMITS" })
	}
	if !slices.ContainsFunc(found, func(l located) bool { return len(l.queue) > 0 && len(l.queue[0].Labels) > 0 }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[located]) bool { return c.Head == "LABELS" })
	}
	return term.Listing[located]{
		Items: found, Columns: columns,
		Name: func(l located) string { return g.LockName(l.path) },
		Line: func(l located) any {
			d := describeLock(g, l, now)
			d.APIVersion, d.AsOf = term.APIVersion, asOf(now)
			return d
		},
		Whole: func() any {
			list := lockList{APIVersion: term.APIVersion, Kind: "LockList", Items: []show.Document{}, AsOf: *asOf(now)}
			for _, l := range found {
				list.Items = append(list.Items, describeLock(g, l, now))
			}
			return list
		},
	}
}

// describeLock returns the document of a lock in a list.
func describeLock(g *conn.Flags, l located, now time.Time) show.Document {
	return l.document(g.LockName(l.path), now)
}

// unreadableState is the state of a lock that nobody may read.
const unreadableState = "unreadable"

// asOf returns the time of a document.
func asOf(now time.Time) *time.Time {
	t := now.UTC().Truncate(time.Millisecond)
	return &t
}

// inkOf returns the color of a lock's state.
func inkOf(state string) term.Ink {
	switch state {
	case "held", "detached", "reserved":
		return term.Yellow
	case "kept":
		return term.Faint
	case unreadableState, "foreign":
		return term.Red
	}
	return term.Green
}

// forState returns how long a holder has held the lock, or how long a waiter has waited. It is empty if the lock is
// only kept.
func forState(e holdfast.Entry, now time.Time) string {
	if e.Kept {
		return ""
	}
	if e.Held {
		return show.HeldFor(e, now)
	}
	return term.Age(e.Since, now)
}

type lockList struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Items      []show.Document `json:"items"`
	AsOf       time.Time       `json:"as_of"`
}
