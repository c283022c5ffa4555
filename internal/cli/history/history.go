// Package history is the command history: what the server knows of a lock's past.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// Document is what is known of a lock's past, in JSON.
type Document struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Name       string     `json:"name"`
	Path       string     `json:"path"`
	Since      *time.Time `json:"since,omitempty"`
	Joined     int64      `json:"joined"`
	Present    int        `json:"present"`
	Events     []Event    `json:"events"`
	// AuditError says why the audit lines are missing. It is "" if they could be read.
	AuditError string    `json:"audit_error,omitempty"`
	AsOf       time.Time `json:"as_of"`
}

// Event is one thing that is known to have happened.
type Event struct {
	Type    string    `json:"type"`
	At      time.Time `json:"at"`
	AtLeast bool      `json:"at_least,omitempty"` // it was at that time or later
	Owner   string    `json:"owner"`
	Why     string    `json:"why"`
	Session string    `json:"session,omitempty"`
	Token   string    `json:"token,omitempty"`
	By      string    `json:"by,omitempty"`
	Outcome string    `json:"outcome,omitempty"`
}

// New returns the command.
func New(g *conn.Flags) *cobra.Command {
	var p term.Printer
	var layout kind.Layout
	var l logs
	cmd := &cobra.Command{
		Use:   "history [flags] LOCK",
		Short: "Show what is known of a lock's past",
		Long: `history shows what the server knows of a lock's past. A server keeps no record of clients that are
gone, so this is:

  - an upper bound of the number of clients that have joined the queue since its node was made, and the
    number of clients in it now. Clients that did not wait (--try) count, and so do locks whose names begin
    with this lock's name and /. The server removes an empty node, and then the count starts again
  - when the present holders and waiters joined, and when the holders acquired the lock. ≥ marks a lower
    bound: the holder acquired the lock at that time or later
  - the audit lines of break, revoke, unlock --force and sessions end. Every client with permission to
    write the audit can change them. If history cannot read the audit, it prints a warning

To record what happens from now on, run: holdfast watch -o jsonl LOCK >> FILE

With --from-logs, history asks no server. It reads the transaction logs and snapshots of Apache ZooKeeper
(3.5 to 3.9): give its dataLogDir or dataDir. Or it reads the journals of holdfast serve and of file://DIR:
give that DIR; the server may run. It prints one line for each change in a queue:

  - joined: the client queues; acquired: nobody is ahead any more
  - released: the holder has unlocked; kept: it has, and keeps the lock for its next use
  - left: a waiter has given up
  - closed, expired: the session was closed, or has timed out
  - removed: another session, which is named, has removed the node
  - unknown: nobody known is ahead. The logs begin after the queue, so an older client may be
  - gone, ended: the node was removed; with ended, its session has ended. Nothing tells by whom or how

Clients of all libraries are there, in all layouts (--layout has no effect). Times are by the clock of the
leading server. ≥ marks a lower bound: the place is older than the logs, or it is in a journal, which does
not say when a node was removed. A journal begins with its last snapshot. Without LOCK, all locks are
printed; with LOCK, it and the locks below it. The logs have no chroot: with zk://h1:2181/app, write
/app/holdfast/locks/nightly. Give the directories of all servers that you have. Each transaction counts
once; proposals of a deposed leader that were never committed do not count. A damaged file is reported, and
the rest of it is skipped. Copy the logs before autopurge removes them.

-o json and -o jsonl print one LockHistory, with --from-logs a LockLogs or its events: see
docs/reference/json.md. -o name prints the owners alone.

Exit codes:
  0   the server has answered, or the logs have an event
  1   nothing is known: no node of the lock and no audit line, or no event in the logs
  2   wrong command line, or no log in the directory
  69  no server answered
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast history nightly
  holdfast history -o json db/migrate | jq .joined
  holdfast history --from-logs /var/lib/zookeeper nightly
  holdfast history --from-logs /var/lib/zookeeper --at 2026-11-28T03:00:00Z`,
		Args: func(cmd *cobra.Command, args []string) error {
			if l.given() && len(args) == 0 {
				return nil
			}
			return term.Operands("lock")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case l.given():
				return l.run(cmd, g, &p, args)
			case l.at != "":
				return term.Usage("", "--at needs --from-logs")
			}
			path, err := g.LockPath(args[0])
			if err != nil {
				return err
			}
			d := Document{APIVersion: term.APIVersion, Kind: "LockHistory", Name: args[0], Path: path, Events: []Event{}}
			err = g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) error { return d.read(ctx, c, layout.Asked()) })
			if err != nil {
				return err
			}
			if d.AuditError != "" {
				g.Log.Warn(cmd, "the audit lines are missing: %s: %s", deed.Path, d.AuditError)
			}
			d.AsOf = *see.AsOf(time.Now())
			if err := d.print(cmd.OutOrStdout(), &p); err != nil {
				return err
			}
			if d.Since == nil && len(d.Events) == 0 {
				return term.ExitCode(term.ExitNo)
			}
			return nil
		},
	}
	p.Register(cmd)
	layout.Register(cmd)
	l.register(cmd)
	return cmd
}

// read fills in what the server knows.
func (d *Document) read(ctx context.Context, c *zk.Client, layout *locks.Layout) error {
	spot, err := locks.At(ctx, c, d.Path)
	if err != nil {
		return err
	}
	l := spot.Lock(layout, time.Now())
	if l.Unreadable && !l.InUse() {
		return fmt.Errorf("%w: the lock %s", zk.ErrNoAuth, d.Path)
	}
	d.Present = len(l.Queue)
	since, joined, err := joinedAt(ctx, c, &l)
	if err != nil {
		return err
	}
	d.Since, d.Joined = since, max(joined, int64(d.Present))
	for _, e := range l.Queue {
		at := Event{Type: "joined", At: e.Since.UTC(), Owner: e.Owner, Why: e.Reason, Token: strconv.FormatInt(e.Token, 10)}
		if e.Session != 0 {
			at.Session = locks.SessionText(e.Session)
		}
		d.Events = append(d.Events, at)
		if e.Held {
			at.Type, at.At, at.AtLeast = "acquired", e.HeldSince.UTC(), false
			if e.HeldSince.IsZero() {
				at.At, at.AtLeast = e.Since.UTC(), true
			}
			d.Events = append(d.Events, at)
		}
	}
	audit, auditError, err := readAuditOf(ctx, c, d.Path)
	if err != nil {
		return err
	}
	d.Events, d.AuditError = append(d.Events, audit...), auditError
	slices.SortStableFunc(d.Events, func(a, b Event) int { return cmp.Compare(a.At.UnixNano(), b.At.UnixNano()) })
	return nil
}

// joinedAt returns when the node of the queue was made, and how many clients have joined it since. The server
// counts every creation and every removal of a child, and the children that are there.
func joinedAt(ctx context.Context, c *zk.Client, l *locks.Lock) (since *time.Time, joined int64, err error) {
	dir := l.Dirs[0]
	if l.Counted() || l.Kind == locks.Shards { // the queue is in a directory of its own
		dir = l.Dirs[1]
	}
	var stat zk.Stat
	var ok bool
	err = zk.Retry(ctx, func() (err error) {
		stat, ok, err = c.Exists(ctx, dir)
		return err
	})
	switch {
	case err != nil || !ok:
		return nil, 0, err
	case stat.EphemeralOwner != 0: // a NodeLock has no queue
		return nil, 1, nil
	}
	made := time.UnixMilli(stat.Ctime).UTC()
	return &made, (int64(uint32(stat.Cversion)) + int64(stat.NumChildren)) / 2, nil
}

// readAuditOf returns the audit lines about the lock at path. If the audit cannot be read, missing says why.
func readAuditOf(ctx context.Context, c *zk.Client, path string) (events []Event, missing string, err error) {
	data, err := get(ctx, c, deed.Path)
	switch {
	case errors.Is(err, zk.ErrNoNode), err == nil && len(data) == 0: // the first audit line makes the node first
		return nil, "", nil
	case errors.Is(err, zk.ErrNoAuth):
		return nil, "no permission to read it", nil
	case err != nil:
		return nil, "", err
	}
	log, err := deed.ParseLog(data)
	if err != nil {
		return nil, err.Error(), nil
	}
	for _, item := range log.Items {
		for _, place := range item.Places {
			if place.Path == path {
				at := item.At.UTC()
				if at.Year() < 0 || at.Year() > 9999 { // JSON has no such year
					at = item.At
				}
				events = append(events, Event{
					Type: item.Action, At: at, Owner: place.Owner, Token: place.Token,
					By: item.By, Why: item.Reason, Outcome: item.Outcome,
				})
			}
		}
	}
	return events, "", nil
}

func (d *Document) print(w io.Writer, p *term.Printer) error {
	switch p.Format {
	case "json":
		return term.JSON(w, d)
	case "jsonl":
		return term.JSONLine(w, d)
	case "name":
	default:
		if p.NoHeaders {
			break
		}
		if _, err := fmt.Fprintln(w, term.Escape(d.Name)+" "+d.summary()); err != nil {
			return err
		}
		if len(d.Events) == 0 {
			return nil
		}
		if _, err := fmt.Fprintln(w); err != nil {
			return err
		}
	}
	return term.Show(w, p, term.Listing[Event]{
		Items: d.Events,
		Name:  func(e Event) string { return e.Owner },
		Columns: []term.Column[Event]{
			{Head: "TIME", Cell: func(e Event) string {
				at := e.At.Format("2006-01-02T15:04:05.000Z07:00")
				if e.AtLeast {
					return "≥" + at
				}
				return at
			}},
			{Head: "EVENT", Cell: func(e Event) string { return e.Type }},
			{Head: "WHO", Cell: func(e Event) string { return e.Owner }},
			{Head: "TOKEN", Cell: func(e Event) string { return e.Token }},
			{Head: "BY", Cell: func(e Event) string { return e.By }},
			{Head: "OUTCOME", Wide: true, Cell: func(e Event) string { return e.Outcome }},
			{Head: "SESSION", Wide: true, Cell: func(e Event) string { return e.Session }},
			{Head: "WHY", Cell: func(e Event) string { return e.Why }},
		},
	})
}

// summary says in words how many clients there were.
func (d *Document) summary() string {
	if d.Since == nil {
		if len(d.Events) == 0 {
			return "has no history: the server has no node of it"
		}
		return "has no queue now"
	}
	return fmt.Sprintf("has had at most %d clients since %s; %d are there now", d.Joined, d.Since.Format(time.RFC3339), d.Present)
}

// get reads the data of a node.
func get(ctx context.Context, c *zk.Client, path string) (data []byte, err error) {
	err = zk.Retry(ctx, func() (err error) {
		data, _, err = c.Get(ctx, path)
		return err
	})
	return data, err
}
