package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/reserve"
	"holdfast/zk"
)

// lockDocument is a lock in JSON. 64-bit numbers are strings, because JavaScript and jq would round
// them.
type lockDocument struct {
	APIVersion string           `json:"apiVersion,omitempty"` // absent in a list, which has it
	Kind       string           `json:"kind"`
	Name       string           `json:"name"`
	Path       string           `json:"path"`
	Mode       string           `json:"mode"`
	State      string           `json:"state"`
	Token      string           `json:"token,omitempty"`
	Permits    *permitsDocument `json:"permits,omitempty"` // of a semaphore or slots
	Holder     *holderDocument  `json:"holder,omitempty"`  // the first holder
	Holders    []holderDocument `json:"holders,omitempty"` // all holders, if there are several
	Waiters    []waiterDocument `json:"waiters"`
	// Reserved is what --min-hold keeps, also after the holder has ended.
	Reserved *reservedDocument `json:"reserved,omitempty"`
	// LastRun is the last run of --once-per.
	LastRun *runDocument `json:"last_run,omitempty"`
	AsOf    *time.Time   `json:"as_of,omitempty"`
}

// permitsDocument is what a semaphore has, or a set of slots.
type permitsDocument struct {
	InUse int `json:"in_use"`
	Limit int `json:"limit,omitempty"` // absent if it is not known
}

func (p *permits) document() *permitsDocument {
	if p == nil {
		return nil
	}
	return &permitsDocument{p.inUse, p.limit}
}

type holderDocument struct {
	Owner   string    `json:"owner"`
	Why     string    `json:"why"`
	Session string    `json:"session"`
	Token   string    `json:"token"`
	Since   time.Time `json:"since"` // when it joined the queue
	// HeldSince is absent if it is not known. Then HeldMS counts from Since and is an upper bound.
	HeldSince *time.Time        `json:"held_since,omitempty"`
	HeldMS    int64             `json:"held_ms"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Detached: no session owns the lock, and Session is empty. Expires is absent if it never does.
	Detached bool       `json:"detached,omitempty"`
	ID       string     `json:"id,omitempty"`
	Expires  *time.Time `json:"expires,omitempty"`
}

type waiterDocument struct {
	Position  int               `json:"position"`
	Owner     string            `json:"owner"`
	Why       string            `json:"why"`
	Session   string            `json:"session"`
	Token     string            `json:"token"` // that it will have as the holder
	Mode      string            `json:"mode"`
	Since     time.Time         `json:"since"`
	WaitingMS int64             `json:"waiting_ms"`
	Labels    map[string]string `json:"labels,omitempty"`
}

func describe(name, path string, queue []holdfast.Entry, now time.Time) lockDocument {
	d := lockDocument{Kind: "Lock", Name: name, Path: path, Mode: "exclusive", State: "free", Waiters: []waiterDocument{}}
	for _, e := range queue {
		since, ms := e.Since.UTC(), max(now.Sub(e.Since), 0).Milliseconds()
		session, token := sessionText(e.Session), strconv.FormatInt(e.Token, 10)
		if e.Held {
			h := holderDocument{Owner: e.Owner, Why: e.Reason, Session: session, Token: token, Since: since, HeldMS: ms, Labels: e.Labels}
			h.detach(e)
			if !e.HeldSince.IsZero() {
				held := e.HeldSince.UTC()
				h.HeldSince, h.HeldMS = &held, max(now.Sub(held), 0).Milliseconds()
			}
			d.Holders = append(d.Holders, h)
		} else {
			d.Waiters = append(d.Waiters, waiterDocument{len(d.Waiters) + 1, e.Owner, e.Reason, session, token, modeOf(e), since, ms, e.Labels})
		}
	}
	if len(d.Holders) > 0 {
		d.State, d.Token, d.Holder = stateOf(queue[0]), d.Holders[0].Token, &d.Holders[0]
		if queue[0].Shared {
			d.Mode = "shared"
		}
	}
	if len(d.Holders) == 1 {
		d.Holders = nil
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

status warns of nodes of other kinds of lock and of other layouts, because their owners do not respect
this queue.

run --min-hold reserves a lock until a time, also after the holder has left the queue. status compares
that time with the clock of this host. Until then, the next holdfast command waits at the head of the queue, where
it is shown as the holder. status also shows the last run of --once-per. holdfast break ends both.

With -q, status prints nothing. -o wide adds columns. -o json and -o jsonl print one Lock: see
docs/reference/json.md. -o name prints the name of the lock. --no-headers prints the places alone.

Exit codes:
  0   the server has answered; with -q, the lock is held, kept or reserved
  1   with -q: the lock is free
  2   wrong command line
  69  no server answered
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast status nightly
  holdfast status -q nightly && echo held`,
		Args: term.Operands("lock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := g.LockPath(args[0])
			if err != nil {
				return err
			}
			l := located{path: path}
			var foreign []string
			err = g.Ask(cmd.Context(), func(ctx context.Context, c *zk.Client) (err error) {
				if l, err = readLock(ctx, c, path, layout.Layout); err != nil {
					return err
				}
				l.reserved, err = reserve.Of(ctx, c, path, layout.Layout)
				if err == nil && !quiet {
					l.lastRun, err = onceOf(c, path, layout.Layout).Every(time.Hour).Recorded(ctx)
				}
				if err != nil && l.holders() == 0 { // otherwise the holder is shown, also to a user who cannot read this
					return err
				}
				if !quiet {
					foreign = warnings(strangers(ctx, c, path, layout.Layout), layout.Layout)
					if err != nil {
						foreign = append(foreign, "not all is shown: "+err.Error())
					}
				}
				return nil
			})
			for _, warning := range foreign {
				g.Log.Warn(cmd, "%s", term.Brief(term.Escape(warning)))
			}
			now := time.Now()
			if l.reserved != nil && !now.Before(l.reserved.Until) {
				l.reserved = nil
			}
			switch {
			case err != nil:
				return err
			case quiet && l.holders() == 0 && l.reserved == nil:
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

// readLock reads the queue of one lock, and its permits if it is a semaphore.
func readLock(ctx context.Context, c *zk.Client, path string, layout holdfast.Layout) (located, error) {
	children, queue, err := inspect(ctx, c, path, layout)
	l := located{path: path, queue: queue}
	if err == nil && isSemaphore(children, queue, layout) {
		l.permits, err = readPermits(ctx, c, path, queue)
	}
	return l, err
}

// showStatus prints one lock, which the user calls name.
func (l *located) showStatus(w io.Writer, p *term.Printer, name string, now time.Time) error {
	switch p.Format {
	case "json", "jsonl":
		d := describe(name, l.path, l.queue, now)
		d.APIVersion, d.AsOf, d.Permits = term.APIVersion, asOf(now), l.permits.document()
		d.reserve(l.reserved)
		d.ran(l.lastRun)
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
		text = term.Escape(reservedText(l.reserved))
	case len(l.queue) == 0:
	case holders == 0: // the waiter is at a semaphore's turnstile
		text = "free; the first waiter is about to acquire it"
	case l.queue[0].Kept:
		text = "kept by " + ownerOf(l.queue[0]) + " for its next use"
	default:
		text = "held by " + holder(l.queue[0], now)
	}
	if len(l.queue) == 0 && l.reserved != nil {
		text += "; its token is " + strconv.FormatInt(l.reserved.Token, 10)
	}
	if holders > 0 && l.reserved != nil && l.reserved.Token != l.queue[0].Token {
		text += "; but " + term.Escape(reservedText(l.reserved)) + ": until then, a holdfast command waits at the head of the queue"
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
		return func(i int) string { return f(l.queue[i]) }
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
		{Head: "SESSION", Cell: of(sessionOf)},
		{Head: "TOKEN", Cell: of(func(e holdfast.Entry) string { return strconv.FormatInt(e.Token, 10) })},
		{Head: "MODE", Wide: true, Cell: of(modeOf)},
		{Head: "SINCE", Wide: true, Cell: of(func(e holdfast.Entry) string { return e.Since.UTC().Format(time.RFC3339) })},
		{Head: "NODE", Wide: true, Cell: of(func(e holdfast.Entry) string { return e.Path })},
		{Head: "LABELS", Wide: true, Cell: of(labelsOf)},
		{Head: "WHY", Cell: of(func(e holdfast.Entry) string { return e.Reason })},
	}
	if !slices.ContainsFunc(l.queue, func(e holdfast.Entry) bool { return len(e.Labels) > 0 }) {
		columns = slices.DeleteFunc(columns, func(c term.Column[int]) bool { return c.Head == "LABELS" })
	}
	return term.Listing[int]{Items: indexes, Columns: columns}
}
