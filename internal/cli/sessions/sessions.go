// Package sessions is the command sessions: who holds and waits by session, and the end of one.
package sessions

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/act"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/kind"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// about is the help.
const about = `sessions lists the sessions that hold locks of the namespace or wait for them, with the locks. A detached
lock has no session and is not listed.

sessions end SESSION takes all locks of a session away, and its places in queues, in one transaction
(of up to 2,000 nodes). It lists them first, and asks you to type the session's id. Where standard input is no
terminal, it needs --yes. If one of the places has gone meanwhile, it takes the others away. Slots and locks with
--node are different: all their holders use a node of the same name. If such a lock gets its next holder at this very
moment, that holder can lose the lock instead.

The session itself goes on: ZooKeeper lets no client end the session of another. Its holders are told that they
have lost their locks, as with holdfast break. The next clients acquire the locks at once, perhaps while the
holders still work. The waiters of the session queue again, at the back, and it can acquire locks again.
Locks outside of the namespace stay. To end a session, stop its
process; its locks are free when the session timeout has passed.

sessions end leaves an audit line (see holdfast break --help).

Exit codes:
  0   the list is complete; with end, the locks are taken away
  1   with end: the session has no locks in the namespace; or not confirmed
  2   wrong command line; or no terminal and no --yes
  69  no server answered
  77  no permission
  78  wrong configuration`

// New returns the command.
func New(g *conn.Flags) *cobra.Command {
	var format term.Format
	var layout kind.Layout
	var act act.Flags
	cmd := &cobra.Command{
		Use:   "sessions [flags] [end SESSION]",
		Short: "List the sessions that hold locks or wait, or take all locks of one away",
		Long:  about,
		Example: `  holdfast sessions
  holdfast sessions end --reason "host is gone" 0x10000a3c0010002`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && args[0] != "end":
				return term.Usage("usage: "+cmd.UseLine(), "sessions: unexpected argument %q", term.Cut(args[0], 40))
			case len(args) == 1:
				return term.Usage("holdfast sessions lists them", "sessions end: no session given")
			case len(args) > 2:
				return term.Usage("usage: "+cmd.UseLine(), "sessions: unexpected argument %q", term.Cut(args[2], 40))
			case len(args) == 0 && (act.Yes || act.Reason != ""):
				return term.Usage("usage: "+cmd.UseLine(), "sessions: --yes and --reason are for sessions end")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := g.CheckNamespace(); err != nil {
				return err
			}
			if len(args) == 0 {
				return listSessions(g, cmd, layout.Asked(), format)
			}
			id, err := parseSession(args[1])
			if err != nil {
				return err
			}
			return g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) error {
				return endSession(ctx, g, cmd, c, id, layout.Asked(), act)
			})
		},
	}
	format.Register(cmd)
	layout.Register(cmd)
	act.Register(cmd)
	return cmd
}

// parseSession reads the id of a session as ls, status and servers print it: in hexadecimal digits.
func parseSession(text string) (int64, error) {
	id, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	if err != nil || id == 0 {
		return 0, term.Usage("holdfast sessions lists them", "session %q: want an id such as 0x10000a3c0010002", term.Cut(text, 40))
	}
	return int64(id), nil
}

// findSessions returns the sessions that have places in queues of the namespace.
func findSessions(ctx context.Context, g *conn.Flags, c *zk.Client, layout *locks.Layout) ([]deed.SessionPlan, error) {
	found, err := locks.Read(ctx, c, locks.Query{Prefix: strings.TrimSuffix(g.Namespace, "/") + "/", Layout: layout})
	if err != nil {
		return nil, err
	}
	for _, l := range found.Locks {
		if l.Unreadable {
			return nil, fmt.Errorf("%w: the lock %s", zk.ErrNoAuth, l.Path)
		}
	}
	return deed.Sessions(found.Locks), nil
}

// A List is what sessions prints as JSON.
type List struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Items      []Document `json:"items"`
	AsOf       time.Time  `json:"as_of"`
}

// A Document is one session.
type Document struct {
	Kind    string  `json:"kind"`
	Session string  `json:"session"`
	Owner   string  `json:"owner"` // of its first place
	Held    int     `json:"held"`
	Waiting int     `json:"waiting"`
	Places  []Place `json:"places"`
	// ProcessGone: its process has ended, and it is about to. That is known on its machine alone.
	ProcessGone bool `json:"process_gone,omitempty"`
}

// A Place is a lock that a session holds or waits for.
type Place struct {
	Name   string    `json:"name"` // of the lock
	Path   string    `json:"path"`
	State  string    `json:"state"` // held, kept, waiting or member
	Shared bool      `json:"shared,omitempty"`
	Token  string    `json:"token"`
	Owner  string    `json:"owner"`
	Why    string    `json:"why"`
	Since  time.Time `json:"since"` // when it joined the queue
}

func placeState(e deed.SessionPlace) string {
	switch {
	case e.Member:
		return "member"
	case e.Kept:
		return "kept"
	case e.Held:
		return "held"
	}
	return "waiting"
}

func listSessions(g *conn.Flags, cmd *cobra.Command, layout *locks.Layout, format term.Format) error {
	var all []deed.SessionPlan
	err := g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) (err error) {
		all, err = findSessions(ctx, g, c, layout)
		return err
	})
	if err != nil {
		return err
	}
	list := List{APIVersion: term.APIVersion, Kind: "SessionList", Items: []Document{}, AsOf: time.Now().UTC().Truncate(time.Millisecond)}
	rows := [][]string{{"SESSION", "OWNER", "HOLDS", "WAITS", "LOCKS"}}
	for _, s := range all {
		d := Document{Kind: "Session", Session: locks.SessionText(s.Session), Owner: s.Places[0].Owner, Held: s.Held(), ProcessGone: s.Gone()}
		var locks []string
		for _, p := range s.Places {
			name := g.LockName(p.Lock)
			d.Places = append(d.Places, Place{name, p.Lock, placeState(p), p.Shared, strconv.FormatInt(p.Token, 10), p.Owner, p.Reason, p.Since.UTC()})
			switch {
			case p.Member:
				name += " (member)"
			case !p.Held:
				name += " (waits)"
				d.Waiting++
			}
			if len(locks) == 0 || locks[len(locks)-1] != name { // or it has several permits or slots of one lock
				locks = append(locks, name)
			}
		}
		list.Items = append(list.Items, d)
		owner := d.Owner
		if d.ProcessGone {
			owner += show.ProcessGone
		}
		rows = append(rows, []string{d.Session, owner, strconv.Itoa(d.Held), strconv.Itoa(d.Waiting), few(locks)})
	}
	if format == "json" {
		return term.JSON(cmd.OutOrStdout(), list)
	}
	return term.Table(cmd.OutOrStdout(), rows)
}

// few joins the first names of many.
func few(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s, +%d", strings.Join(names[:most], ", "), len(names)-most)
}

// endSession takes all places of a session away.
func endSession(ctx context.Context, g *conn.Flags, cmd *cobra.Command, c *zk.Client, id int64, layout *locks.Layout, how act.Flags) error {
	all, err := findSessions(ctx, g, c, layout)
	if err != nil {
		return err
	}
	word := locks.SessionText(id)
	i := slices.IndexFunc(all, func(s deed.SessionPlan) bool { return s.Session == id })
	if i < 0 {
		return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("session %s has no lock below %s, and waits for none", word, term.Cut(g.Namespace, 80)), Hint: "holdfast sessions lists those that have"}
	}
	showSession(g, cmd.ErrOrStderr(), word, all[i])
	if err := how.Confirm(cmd, "take them away", word); err != nil {
		return err
	}
	taken, record, err := all[i].Do(ctx, c, deed.By{Name: conn.Owner(), Reason: how.Reason})
	act.TellAudit(g, cmd, record, err)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "took %d of %d places from session %s\n", taken, len(all[i].Places), word)
	return err
}

// showSession lists what a session is to lose.
func showSession(g *conn.Flags, w io.Writer, id string, s deed.SessionPlan) {
	now := time.Now()
	fmt.Fprintf(w, "session %s loses:\n", id)
	for _, p := range s.Places {
		what := "waits for " + show.For(p.Entry, now)
		switch {
		case p.Member:
			what = "member since " + term.Age(p.Since, now)
		case p.Kept:
			what = "kept"
		case p.Held:
			what = "held for " + show.For(p.Entry, now)
		}
		by := show.Owner(p.Entry)
		if p.Gone {
			by += show.ProcessGone
		}
		fmt.Fprintf(w, "  %s: %s by %s, token %d\n", term.Escape(g.LockName(p.Lock)), what, by, p.Token)
	}
	fmt.Fprintln(w, "Its holders are told, but the next clients do not wait for them to stop. The session itself goes on.")
}
