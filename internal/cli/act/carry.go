package act

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/zk"
)

// CarryOut carries p out, and prints the audit line.
func CarryOut(ctx context.Context, g *conn.Flags, cmd *cobra.Command, c *zk.Client, p *deed.Plan, name, reason string) error {
	record, err := p.Do(ctx, c, deed.By{Name: conn.Owner(), Reason: reason})
	TellAudit(g, cmd, record, err)
	return Changed(name, err)
}

// ShowQueue describes the places that are to be acted on, and those behind them. p.Places must not be empty.
func ShowQueue(w io.Writer, name string, p *deed.Plan, now time.Time) {
	e := p.Places[0]
	what := "waits for " + show.For(e, now)
	switch {
	case e.Kept:
		what = "keeps the lock for its next use"
	case e.Held:
		what = "holds the lock for " + show.For(e, now)
	}
	fmt.Fprintf(w, "%s: %s %s, token %d, session %s\n", term.Escape(name), show.Owner(e), what, e.Token, show.Session(e))
	if how := show.EndOfDetached(e, now); how != "" {
		fmt.Fprintf(w, "  %s, id %s\n", how, term.Escape(term.Cut(e.ID, term.MaxCell)))
	}
	waiters, next := p.Waiting()
	switch {
	case !e.Held:
	case waiters == 0:
		fmt.Fprintln(w, "  nobody waits")
	default:
		fmt.Fprintf(w, "  %d waiting; next: %s\n", waiters, show.Owner(*next))
	}
}

// Changed gives the error for a token that nobody has its exit code and the name of the lock. Other errors stay.
func Changed(name string, err error) error {
	if e, ok := errors.AsType[*deed.HandoverError](err); ok {
		return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("%s: %s; nothing was done", term.Cut(name, 80), e.Why), Hint: "holdfast status shows the candidates"}
	}
	e, ok := errors.AsType[*deed.ChangedError](err)
	if !ok {
		return err
	}
	if r := e.Kept(); r != nil {
		return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: nobody in the queue has the token %d; the lock is %s, token %d; nothing was done",
			term.Cut(name, 80), e.Token, term.Cut(show.Reservation(r), 160), r.Token), Hint: "to end that time, give its token to holdfast break"}
	}
	now := e.Holder()
	if now == nil {
		return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("%s is free: nobody has the token %d", term.Cut(name, 80), e.Token)}
	}
	return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: nobody has the token %d any more; now held by %s, token %d; nothing was done", term.Cut(name, 80), e.Token, term.Cut(show.Holder(*now, time.Now()), 160), now.Token),
		Hint: "look again with holdfast status"}
}
