package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
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
	Holder     *holderDocument  `json:"holder,omitempty"`  // the first holder
	Holders    []holderDocument `json:"holders,omitempty"` // all holders, if there are several
	Waiters    []waiterDocument `json:"waiters"`
	// Reserved is what --min-hold keeps, also after the holder has ended.
	Reserved *reservedDocument `json:"reserved,omitempty"`
	AsOf     *time.Time        `json:"as_of,omitempty"`
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
	Mode      string            `json:"mode"`
	Since     time.Time         `json:"since"`
	WaitingMS int64             `json:"waiting_ms"`
	Labels    map[string]string `json:"labels,omitempty"`
}

func describe(name, path string, queue []holdfast.Entry, now time.Time) lockDocument {
	d := lockDocument{Kind: "Lock", Name: name, Path: path, Mode: "exclusive", State: "free", Waiters: []waiterDocument{}}
	for _, e := range queue {
		since, ms := e.Since.UTC(), max(now.Sub(e.Since), 0).Milliseconds()
		session := fmt.Sprintf("0x%x", uint64(e.Session))
		if e.Held {
			token := strconv.FormatInt(e.Token, 10)
			h := holderDocument{Owner: e.Owner, Why: e.Reason, Session: session, Token: token, Since: since, HeldMS: ms, Labels: e.Labels}
			h.detach(e)
			if !e.HeldSince.IsZero() {
				held := e.HeldSince.UTC()
				h.HeldSince, h.HeldMS = &held, max(now.Sub(held), 0).Milliseconds()
			}
			d.Holders = append(d.Holders, h)
		} else {
			mode := "exclusive"
			if e.Shared {
				mode = "shared"
			}
			d.Waiters = append(d.Waiters, waiterDocument{len(d.Waiters) + 1, e.Owner, e.Reason, session, mode, since, ms, e.Labels})
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

func newStatus(g *globals) *cobra.Command {
	var quiet bool
	var format output
	var layout layoutFlag
	cmd := &cobra.Command{
		Use:     "status [flags] LOCK",
		Aliases: []string{"inspect"},
		Short:   "Show the holder of a lock and its queue",
		Long: `status shows the holder of a lock and the queue behind it. FOR is how long the holder has held
the lock, or how long a waiter has waited. ≤ marks an upper bound: the time since the holder joined
the queue. A holder records the time of its acquire once it has held the lock for a second. Leaders
(elect) and other programs never record it. A lock is kept if a program has released it and keeps it for
its next use, until somebody else asks. For about a second, a lock in use again is still shown as kept. No
session owns a detached lock (holdfast lock --detached); its id is shown for holdfast unlock.

status warns of nodes of other kinds of lock and of other layouts, because their owners do not respect
this queue.

A lock is held until a time if run --min-hold keeps it though nobody is in the queue. status compares that
time with the clock of this host.

With -q, status prints nothing.

Exit codes:
  0   the server has answered; with -q, the lock is held or kept
  1   with -q: the lock is free
  2   wrong command line
  69  no server answered
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast status nightly
  holdfast status -q nightly && echo held`,
		Args: operands("lock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := g.lockPath(args[0])
			if err != nil {
				return err
			}
			var queue []holdfast.Entry
			var foreign []string
			var reserved *holdfast.Reservation
			err = g.ask(cmd.Context(), func(ctx context.Context, c *zk.Client) (err error) {
				queue, err = holdfast.List(ctx, c, path, holdfast.WithLayout(layout.Layout))
				if err == nil {
					reserved, err = holdfast.Reserved(ctx, c, path)
				}
				if err == nil && !quiet {
					foreign = warnings(strangers(ctx, c, path, layout.Layout), layout.Layout)
				}
				return err
			})
			for _, warning := range foreign {
				_, _ = io.WriteString(cmd.ErrOrStderr(), g.log.format.message(levelWarn, escape(warning), ""))
			}
			now := time.Now()
			if reserved != nil && !now.Before(reserved.Until) {
				reserved = nil
			}
			switch {
			case err != nil:
				return err
			case quiet && len(queue) == 0 && reserved == nil:
				return exitCode(exitNo)
			case quiet:
				return nil
			case format == "json":
				d := describe(args[0], path, queue, now)
				asOf := now.UTC().Truncate(time.Millisecond)
				d.APIVersion, d.AsOf = apiVersion, &asOf
				d.reserve(reserved)
				return document(cmd.OutOrStdout(), d)
			}
			if reserved != nil && len(queue) == 0 {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s is %s\n", escape(args[0]), escape(reservedText(reserved)))
				return err
			}
			return printStatus(cmd.OutOrStdout(), args[0], queue, now)
		},
	}
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "print nothing: exit 0 if held, 1 if free")
	format.register(cmd)
	layout.register(cmd)
	return cmd
}

func printStatus(w io.Writer, name string, queue []holdfast.Entry, now time.Time) error {
	if len(queue) == 0 {
		_, err := fmt.Fprintf(w, "%s is free\n", escape(name))
		return err
	}
	rows := [][]string{{"POSITION", "WHO", "FOR", "SESSION", "TOKEN", "WHY"}}
	waiters, holders := 0, 0
	for _, e := range queue {
		position := "holder"
		if e.Held {
			holders++
		} else {
			waiters++
			position = strconv.Itoa(waiters)
		}
		switch {
		case e.Kept:
			position = "keeps"
		case e.Held && e.Shared:
			position = "shares"
		}
		rows = append(rows, []string{
			position, e.Owner, forState(e, now), sessionOf(e), strconv.FormatInt(e.Token, 10), e.Reason,
		})
	}
	who := "free; the first waiter is about to acquire it" // the waiter is at a semaphore's turnstile
	if holders > 0 {
		who = "held by " + holder(queue[0], now)
	}
	if queue[0].Detached {
		who += "; its id is " + escape(queue[0].ID)
	}
	if queue[0].Kept {
		who = "kept by " + ownerOf(queue[0]) + " for its next use"
	}
	if holders > 1 {
		who += fmt.Sprintf(" and %d more", holders-1)
	}
	if _, err := fmt.Fprintf(w, "%s is %s\n\n", escape(name), who); err != nil {
		return err
	}
	return table(w, rows)
}
