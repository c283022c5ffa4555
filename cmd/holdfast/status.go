package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	layouts "holdfast/layout"
	"holdfast/zk"
)

func (p *permits) document() *show.Permits {
	if p == nil {
		return nil
	}
	return &show.Permits{InUse: p.inUse, Limit: p.limit}
}

// document returns the lock, which the user calls name, as a document.
func (l *located) document(name string, now time.Time) show.Document {
	d := show.Describe(name, l.path, l.queue, now)
	d.Permits, d.LockKind, d.Layout = l.permits.document(), l.kind, l.layout
	for _, node := range l.foreign {
		d.Foreign = append(d.Foreign, node.Path)
	}
	d.Reserve(l.reserved)
	if s := l.state(); s == unreadableState || s == "foreign" {
		d.State = s
	}
	return d
}

func newStatus(g *conn.Flags) *cobra.Command {
	var quiet bool
	var p term.Printer
	var layout layoutFlag
	cmd := &cobra.Command{
		Use:     "status [flags] LOCK",
		Aliases: []string{"inspect"},
		Short:   "Show the holder of a lock and its queue",
		Long: `status shows the holder of a lock and the queue behind it. FOR is how long the holder has held
the lock, or how long a waiter has waited. ≤ marks an upper bound. It counts from when the holder joined
the queue. A holder records the time of its acquire once it has held the lock for a second. Leaders
(elect) and other libraries never record it. FOR counts from a time by the server's clock to now, by the clock of
this machine. So it is wrong by the difference of the two clocks, which holdfast doctor shows.

A lock is kept if a program has released it and keeps it for its next use, until another client queues.
If the program uses the lock again, status still shows it as kept for about a second. No session owns a
detached lock (holdfast lock --detached). status shows its id, which holdfast unlock needs.

status finds the lock in every layout and kind, and the locks of trees (run --tree) by the name that their users give.
With --layout, it shows the lock of that layout. It warns of nodes of other kinds of lock and of other layouts, because
their owners do not respect this queue. If nobody is in the queue, such nodes are in the way, and the lock is not free.

run --min-hold reserves a lock until a time, also after the holder has left the queue. status compares
that time with the clock of this host. Until then, the next holdfast command waits at the head of the queue, where
it is shown as the holder. status also shows the last run of --once-per. holdfast break ends both.

With -q, status prints nothing. -o wide adds columns. -o json and -o jsonl print one Lock: see
docs/reference/json.md. -o name prints the name of the lock. --no-headers prints the places alone.

Exit codes:
  0   the server has answered; with -q, the lock is held, kept or reserved, or something else is in the way
  1   with -q: the lock is free: nothing of any layout or kind is in the way
  2   wrong command line
  69  no server answered
  77  no permission: status cannot tell
  78  wrong configuration`,
		Example: `  holdfast status nightly
  holdfast status -q nightly && echo held`,
		Args: term.Operands("lock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := g.LockPath(args[0])
			if err != nil {
				return err
			}
			var l located
			var foreign []string
			err = g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) (err error) {
				l, foreign, err = readStatus(ctx, c, path, &layout, quiet)
				return err
			})
			for _, warning := range foreign {
				g.Log.Warn(cmd, "%s", term.Brief(term.Escape(warning)))
			}
			now := time.Now()
			switch {
			case err != nil:
				return err
			case quiet && (l.state() == string(locks.Free) || l.state() == string(locks.Waiting)):
				return term.ExitCode(term.ExitNo)
			case quiet:
				return nil
			}
			return l.showStatus(cmd.OutOrStdout(), &p, args[0], now)
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing: exit 0 if held, 1 if free")
	p.Register(cmd)
	layout.register(cmd)
	return cmd
}

// readStatus reads a lock and what is around it. Unless quiet is set, it returns warnings about other nodes there. The
// error is zk.ErrNoAuth if it cannot tell who holds the lock.
func readStatus(ctx context.Context, c *zk.Client, path string, layout *layoutFlag, quiet bool) (l located, warned []string, err error) {
	spot, err := locks.At(ctx, c, path)
	if err != nil {
		return l, nil, err
	}
	now := time.Now()
	l = locate(spot.Lock(layout.asked(), now), now)
	if l.unreadable {
		return l, nil, cmp.Or(spot.Doubt, fmt.Errorf("%w: the lock %s", zk.ErrNoAuth, path))
	}
	own := layout.Layout
	if named, err := holdfast.ParseLayout(l.layout); err == nil {
		own = named
	}
	// What the library refuses is in the way, too. A lock of a tree that is in use can be acquired, and others not.
	others := outside(strangers(ctx, c, path, own), l)
	if len(l.queue) == 0 {
		for _, n := range others {
			if !strings.HasPrefix(n.Kind, "the tree ") && n.Kind != "" {
				if at := locks.ForeignNode(n); !slices.Contains(l.foreign, at) {
					l.foreign = append(l.foreign, at)
				}
			}
		}
	}
	if quiet {
		return l, nil, nil
	}
	warned = warnings(others, own)
	if l.lastRun, err = onceOf(c, path, own).Every(time.Hour).Recorded(ctx); err == nil {
		err = spot.Doubt
	}
	switch {
	case err != nil && l.holders() == 0: // otherwise the holder is shown, also to a user who cannot read this
		return l, nil, err
	case err != nil:
		warned = append(warned, "not all is shown: "+err.Error())
	}
	return l, warned, nil
}

// outside returns the nodes that are not of the lock.
func outside(nodes []holdfast.ForeignNode, l located) []holdfast.ForeignNode {
	return slices.DeleteFunc(nodes, func(n holdfast.ForeignNode) bool {
		return slices.ContainsFunc(l.queue, func(p locks.Place) bool { return p.Path == n.Path }) || l.kind == string(locks.Tree) && strings.HasPrefix(n.Kind, "the tree ") ||
			l.kind == string(locks.Shards) && strings.HasPrefix(n.Path, l.path+"/")
	})
}

// showStatus prints one lock, which the user calls name.
func (l *located) showStatus(w io.Writer, p *term.Printer, name string, now time.Time) error {
	switch p.Format {
	case "json", "jsonl":
		d := l.document(name, now)
		d.APIVersion, d.AsOf = term.APIVersion, asOf(now)
		d.LastRun = runOf(l.lastRun)
		if p.Format == "jsonl" {
			return term.JSONLine(w, d)
		}
		return term.JSON(w, d)
	case "name":
		_, err := fmt.Fprintln(w, term.Escape(name))
		return err
	}
	if !p.NoHeaders {
		text := term.Escape(name) + " is " + l.summary(now) + "\n"
		if l.lastRun != nil {
			text += "the last run of --once-per: " + term.Escape(lastRunText(l.lastRun)) + "\n"
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
	}
	if len(l.queue) == 0 {
		return nil
	}
	if !p.NoHeaders {
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return term.Show(w, p, l.places(now))
}

// summary says in words who holds the lock.
func (l *located) summary(now time.Time) string {
	text := "free"
	holders := l.holders()
	switch {
	case l.unreadable:
		text = "unreadable: no permission to read it"
	case len(l.queue) == 0 && l.reserved != nil:
		text = term.Escape(show.Reservation(l.reserved))
	case l.state() == string(locks.Foreign):
		text = "not free: in the way is " + term.Escape(strings.Join(inTheWay(l.foreign), ", and "))
	case len(l.queue) == 0:
	case holders == 0: // the waiter is at a semaphore's turnstile
		text = "free; the first waiter is about to acquire it"
	case l.queue[0].Kept:
		text = "kept by " + show.Owner(l.queue[0].Entry) + " for its next use"
	default:
		text = "held by " + show.Holder(l.queue[0].Entry, now)
	}
	if len(l.queue) == 0 && l.reserved != nil {
		text += "; its token is " + strconv.FormatInt(l.reserved.Token, 10)
	}
	if holders > 0 && l.reserved != nil && l.reserved.Token != l.queue[0].Token {
		text += "; but " + term.Escape(show.Reservation(l.reserved)) + ": until then, a holdfast command waits at the head of the queue"
	}
	if len(l.queue) > 0 && l.queue[0].Detached {
		text += "; its id is " + term.Escape(term.Cut(l.queue[0].ID, term.MaxCell))
	}
	if holders > 1 {
		text += fmt.Sprintf(" and %d more", holders-1)
	}
	if l.permits != nil {
		limit := "an unknown number of"
		if l.permits.limit > 0 {
			limit = strconv.Itoa(l.permits.limit)
		}
		text += fmt.Sprintf("; %d of %s permits in use", l.permits.inUse, limit)
	}
	switch {
	case l.kind == string(locks.Shards):
		text += "; it is a set of shards"
	case l.layout != "" && l.layout != layouts.Curator.Name && len(l.queue) > 0:
		text += "; its layout is " + term.Escape(l.layout)
	}
	return text
}

// places returns the queue for a table.
func (l *located) places(now time.Time) term.Listing[int] {
	position, waiters := make([]string, len(l.queue)), 0
	indexes := make([]int, len(l.queue))
	for i, e := range l.queue {
		indexes[i] = i
		switch {
		case e.Kept:
			position[i] = "keeps"
		case e.Held && e.Shared:
			position[i] = "shares"
		case e.Held:
			position[i] = "holder"
		default:
			waiters++
			position[i] = strconv.Itoa(waiters)
		}
	}
	of := func(f func(holdfast.Entry) string) func(int) string {
		return func(i int) string { return f(l.queue[i].Entry) }
	}
	columns := []term.Column[int]{
		{Head: "POSITION", Cell: func(i int) string { return position[i] }, Ink: func(i int) term.Ink {
			switch e := l.queue[i]; {
			case e.Kept:
				return term.Faint
			case e.Held:
				return term.Yellow
			}
			return 0
		}},
		{Head: "WHO", Cell: of(func(e holdfast.Entry) string { return e.Owner })},
		{Head: "FOR", Cell: of(func(e holdfast.Entry) string { return forState(e, now) })},
		{Head: "SESSION", Cell: of(show.Session)},
		{Head: "TOKEN", Cell: of(func(e holdfast.Entry) string { return strconv.FormatInt(e.Token, 10) })},
		{Head: "MODE", Wide: true, Cell: of(show.Mode)},
		{Head: "SINCE", Wide: true, Cell: of(func(e holdfast.Entry) string { return e.Since.UTC().Format(time.RFC3339) })},
		{Head: "NODE", Wide: true, Cell: of(func(e holdfast.Entry) string { return e.Path })},
		{Head: "LABELS", Wide: true, Cell: of(labelsOf)},
		{Head: "WHY", Cell: of(func(e holdfast.Entry) string { return e.Reason })},
	}
	if !slices.ContainsFunc(l.queue, func(e locks.Place) bool { return len(e.Labels) > 0 }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[int]) bool { return c.Head == "LABELS" })
	}
	return term.Listing[int]{Items: indexes, Columns: columns}
}
