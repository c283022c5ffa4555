package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/zk"
)

// actFlags are the flags of the subcommands that act on locks of others.
type actFlags struct {
	yes    bool
	reason string
}

func (f *actFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "do not ask; needed where standard input is no terminal")
	cmd.Flags().StringVar(&f.reason, "reason", "", "reason, for the audit line")
}

// confirm asks on the terminal, unless the user has said yes before. word is what the user has to type. in is read
// by nobody else.
func (f *actFlags) confirm(cmd *cobra.Command, verb, word string) error {
	if f.yes {
		return nil
	}
	if !interactive(os.Stdin) {
		return usage("look at what it says above, and add --yes if that is what you want", "%s: standard input is no terminal, so nobody can confirm", cmd.Name())
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "To %s, type %s: ", verb, escape(word))
	line, err := bufio.NewReader(io.LimitReader(os.Stdin, 64<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: cannot read the answer: %w", cmd.Name(), err)
	}
	if strings.TrimSpace(line) != word {
		return &fault{exitNo, fmt.Errorf("%s: not confirmed; nothing was done", cmd.Name()), ""}
	}
	return nil
}

// An action is something that break and revoke do to a tenure of somebody else.
type action struct {
	name  string // of the subcommand
	does  string // in words, what it does
	done  string // in words, what it has done
	apply func(ctx context.Context, c *zk.Client, path string, token int64) error
	ends  bool // also what outlasts a holder: --min-hold, and the record of a job
}

var (
	breaking = action{"break", "It takes the lock away at once. The holder is told, but the next client does not wait for it to stop.", "broke", holdfast.Break, true}
	revoking = action{"revoke", "It asks the holder to release the lock. The holder decides.", "asked for", holdfast.Revoke, false}
)

func newBreak(g *globals) *cobra.Command {
	return g.newAction(breaking, &cobra.Command{
		Use:        "break [flags] LOCK",
		SuggestFor: []string{"kill"},
		Short:      "Take a lock away from its holder, or let a job run again",
		Long: `break removes the holder with the given token from the lock, or a waiter from its queue. If the holder has
changed since you looked, break does nothing.

break shows the holder, the clients that wait and the next one, and asks you to type the lock's name. Where
standard input is no terminal, it needs --yes.

The holder is told that it has lost the lock: holdfast run kills its command. But the next client acquires the lock
at once, perhaps while the command still runs. So break a lock only if its holder is stuck, and let the guarded
resource check tokens. A waiter that was removed queues again, at the back, if its program still runs.

break also ends the time of run --min-hold, if the holder with the token has given it. The holder itself may have
ended: holdfast status shows the token. The next waiter acquires the lock within 2 seconds.

With --once-per or --once-key, break removes the record of a job instead: that of the last run --once-per, or of the
run with that key. Then the job can run again. It needs no --token, and does not touch the lock.

break, revoke, unlock --force and sessions end leave an audit line: on stderr, and in the node
/holdfast/audit of the server, which keeps the last 500 lines. A client that may write that node can
change them.

Exit codes:
  0   the lock is broken, or the record is removed
  1   nobody holds the lock; or there is no such record; or not confirmed
  2   wrong command line; or no terminal and no --yes
  69  no server answered
  75  somebody else holds the lock now; or another run is recorded now
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast status db/migrate                  # shows the token
  holdfast break --token 4294967311 --reason "host is gone" db/migrate
  holdfast break --token 4294967311 --yes db/migrate
  holdfast break --once-key 2026-11-23 daily  # the job of that date can run again`,
	})
}

func newRevoke(g *globals) *cobra.Command {
	return g.newAction(revoking, &cobra.Command{
		Use:   "revoke [flags] LOCK",
		Short: "Ask the holder of a lock to release it",
		Long: `revoke asks the holder with the given token, or a waiter, to release the lock. It returns once the request is
written, and does not wait for the release. If the holder has changed since you looked, revoke does nothing.

A program that uses holdfast's Go package sees the request as Hold.Revoked, and a program that uses Curator if its
lock is revocable. All others ignore it: so do holdfast run, lock and elect, and there is no process that could see
it for a detached lock. To end a detached lock, see holdfast unlock.

revoke shows the holder, the clients that wait and the next one, and asks you to type the lock's name. Where
standard input is no terminal, it needs --yes. It leaves an audit line (see holdfast break --help).

Exit codes:
  0   the request is written
  1   nobody holds the lock; or not confirmed
  2   wrong command line; or no terminal and no --yes
  69  no server answered
  75  somebody else holds the lock now
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast status db/migrate                  # shows the token
  holdfast revoke --token 4294967311 --reason "maintenance at 12:00" db/migrate`,
	})
}

// newAction adds to cmd what break and revoke have in common.
func (g *globals) newAction(a action, cmd *cobra.Command) *cobra.Command {
	var token string
	var act actFlags
	var layout layoutFlag
	var forget forgetFlags
	cmd.Args = operands("lock")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := g.lockPath(args[0])
		if err != nil {
			return err
		}
		if used, err := forget.used(cmd); err != nil {
			return err
		} else if used {
			return g.ask(cmd.Context(), func(ctx context.Context, c *zk.Client) error {
				return g.forgetRun(ctx, cmd, c, forget, act, args[0], path, layout.Layout)
			})
		}
		n, err := parseToken(a.name, token, args[0])
		if err != nil {
			return err
		}
		return g.ask(cmd.Context(), func(ctx context.Context, c *zk.Client) error {
			return g.act(ctx, cmd, c, a, act, args[0], path, n, layout.Layout)
		})
	}
	cmd.Flags().StringVar(&token, "token", "", "token of the holder, as holdfast status shows it")
	act.register(cmd)
	layout.register(cmd)
	if a.ends {
		forget.register(cmd)
	}
	return cmd
}

// parseToken reads --token.
func parseToken(command, text, name string) (int64, error) {
	hint := "holdfast status " + cut(name, 80) + " shows the holder's token"
	if text == "" {
		return 0, usage(hint, "%s: no --token given", command)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		return 0, usage(hint, "--token %q is no token: want a number above 0", cut(text, 40))
	}
	return n, nil
}

// A deed is an action on one lock.
type deed struct {
	action     action
	name, path string
	layout     holdfast.Layout
	token      int64
	places     []holdfast.Entry      // those with the token
	reserved   *holdfast.Reservation // what the action ends besides; or nil
}

// act shows what a does to whom, asks, and does it.
func (g *globals) act(ctx context.Context, cmd *cobra.Command, c *zk.Client, a action, f actFlags, name, path string, token int64, layout holdfast.Layout) error {
	queue, err := holdfast.List(ctx, c, path, holdfast.WithLayout(layout))
	if err != nil {
		return err
	}
	d := deed{action: a, name: name, path: path, layout: layout, token: token}
	d.places = slices.DeleteFunc(slices.Clone(queue), func(e holdfast.Entry) bool { return e.Token != token })
	reserved, err := holdfast.Reserved(ctx, c, path, holdfast.WithLayout(layout))
	if err != nil && len(d.places) == 0 { // otherwise the holder can be broken, also by a user who cannot read this
		return err
	}
	if a.ends && reserved != nil && reserved.Token == token {
		d.reserved = reserved
	}
	if len(d.places) > 0 {
		showQueue(cmd.ErrOrStderr(), name, queue, d.places, time.Now())
		fmt.Fprintln(cmd.ErrOrStderr(), a.does)
	} else if d.reserved == nil {
		return changed(name, token, queue, reserved)
	}
	if d.reserved != nil {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s, token %d\nIt ends this time. The next client acquires the lock within 2 seconds.\n",
			escape(name), escape(reservedText(reserved)), token)
	}
	if err := f.confirm(cmd, a.name+" it", name); err != nil {
		return err
	}
	if err := g.do(ctx, cmd, c, d, f.reason); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s token=%d\n", a.done, escape(name), token)
	return err
}

// do carries d out, and leaves the audit line.
func (g *globals) do(ctx context.Context, cmd *cobra.Command, c *zk.Client, d deed, reason string) error {
	line := auditEntry{Action: d.action.name, Reason: reason}.of(d.path, d.places)
	if len(d.places) == 0 {
		line.Places = []auditPlace{{Path: cut(d.path, auditText), Owner: cut(d.reserved.Owner, auditText), Why: "--min-hold", Token: strconv.FormatInt(d.token, 10)}}
	}
	return g.audited(ctx, cmd, c, line, func() error {
		err := fmt.Errorf("%w with the token %d", holdfast.ErrNotHeld, d.token)
		if len(d.places) > 0 {
			err = d.action.apply(ctx, c, d.path, d.token)
		}
		if gone := errors.Is(err, holdfast.ErrNotHeld); d.reserved != nil && (gone || err == nil) {
			if end := d.reserved.End(ctx, c); gone || !errors.Is(end, holdfast.ErrNotHeld) {
				err = end
			}
		}
		if errors.Is(err, holdfast.ErrNotHeld) {
			queue, lerr := holdfast.List(ctx, c, d.path, holdfast.WithLayout(d.layout))
			if lerr != nil {
				return err
			}
			return changed(d.name, d.token, queue, nil)
		}
		return err
	})
}

// changed is the error for a token that nobody has. reserved is what --min-hold keeps, or nil.
func changed(name string, token int64, queue []holdfast.Entry, reserved *holdfast.Reservation) error {
	if len(queue) == 0 && reserved != nil && time.Now().Before(reserved.Until) {
		return &fault{exitBusy, fmt.Errorf("%s: nobody in the queue has the token %d; the lock is %s, token %d; nothing was done",
			cut(name, 80), token, cut(reservedText(reserved), 160), reserved.Token), "to end that time, give its token to holdfast break"}
	}
	if len(queue) == 0 {
		return &fault{exitNo, fmt.Errorf("%s is free: nobody has the token %d", cut(name, 80), token), ""}
	}
	return &fault{exitBusy, fmt.Errorf("%s: nobody has the token %d any more; now held by %s, token %d; nothing was done", cut(name, 80), token, cut(holder(queue[0], time.Now()), 160), queue[0].Token),
		"look again with holdfast status"}
}

// showQueue describes the places that are to be acted on, and those behind them.
func showQueue(w io.Writer, name string, queue, places []holdfast.Entry, now time.Time) {
	e := places[0]
	what := "waits for " + forState(e, now)
	switch {
	case e.Kept:
		what = "keeps the lock for its next use"
	case e.Held:
		what = "holds the lock for " + forState(e, now)
	}
	fmt.Fprintf(w, "%s: %s %s, token %d, session %s\n", escape(name), ownerOf(e), what, e.Token, sessionOf(e))
	if how := endOfDetached(e, now); how != "" {
		fmt.Fprintf(w, "  %s, id %s\n", how, escape(cut(e.ID, maxCell)))
	}
	waiters := 0
	next := ""
	for _, q := range queue {
		if q.Held || q.Token == e.Token {
			continue
		}
		if waiters++; next == "" {
			next = ownerOf(q)
		}
	}
	switch {
	case !e.Held:
	case waiters == 0:
		fmt.Fprintln(w, "  nobody waits")
	default:
		fmt.Fprintf(w, "  %d waiting; next: %s\n", waiters, next)
	}
}
