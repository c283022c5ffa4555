package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/reserve"
	"holdfast/zk"
)

// minHoldFlag is --min-hold: the lock stays held for this long, also after run has ended.
type minHoldFlag struct{ least time.Duration }

func (f *minHoldFlag) register(cmd *cobra.Command) {
	term.DurationVar(cmd.Flags(), &f.least, "min-hold", "", 0, "keep the lock for this long from the start of the command, by the server's clock, even if the command ends, or holdfast or this host dies")
}

func (f *minHoldFlag) check(cmd *cobra.Command) error {
	if !cmd.Flags().Changed("min-hold") {
		return nil
	}
	if f.least < time.Millisecond || f.least > term.MaxDuration {
		return term.Usage("give a time such as 50s for a job of every minute", "--min-hold %v: want 1ms to %v", f.least, term.MaxDuration)
	}
	return needsOneExclusive(cmd, "--min-hold")
}

// reserve makes the lock stay held for --min-hold. No command may start if it fails.
func (k *Taker) reserve(ctx context.Context, c *zk.Client, h *holdfast.Hold) error {
	if k.minHold == 0 {
		return nil
	}
	if ctx.Err() != nil { // no command starts, so others must not wait
		return context.Cause(ctx)
	}
	k.reserved.Store(true)
	if err := reserve.For(h.Context(), h, k.minHold); err != nil {
		k.unreserve(c, h) // it may be recorded all the same
		return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("%s: the command was not started: %w", k.Name, err)}
	}
	return nil
}

// unreserve undoes reserve, since the command did not start: otherwise others would wait for nothing.
func (k *Taker) unreserve(c *zk.Client, h *holdfast.Hold) {
	if k.minHold == 0 || reserve.Cancel(h.Context(), h) == nil {
		k.reserved.Store(false)
		return
	}
	// The lock is lost, or no server answers. When the lock's node is gone, no transaction on its way can reserve the lock.
	_ = h.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), k.Timeout)
	defer cancel()
	r, err := reserve.Of(ctx, c, k.Path, k.Kind.Layout.Layout)
	if err == nil && r != nil && r.Token == k.token(h) {
		err = r.End(ctx, c)
	}
	if k.reserved.Store(false); err != nil && !errors.Is(err, holdfast.ErrNotHeld) {
		k.leftReserved(err)
	}
}

// leftReserved says that the lock may stay reserved, although no command was started.
func (k *Taker) leftReserved(err error) {
	why := ""
	if _, stopped := errors.AsType[term.ExitCode](err); !stopped {
		why = ": " + term.Escape(term.Cut(err.Error(), 250))
	}
	k.say.Line("%s: others may have to wait for --min-hold, though the command was not started%s. To end that, see holdfast break",
		term.Escape(term.Cut(k.Name, 80)), why)
}

// reservedOr returns the error of a lock that --min-hold keeps, or otherwise what busy returns.
func (k *Taker) reservedOr(err error, busy func() error) error {
	r, ok := errors.AsType[*reserve.Reservation](err)
	if !ok {
		return busy()
	}
	what := show.Reservation(r)
	if k.bounded {
		what = fmt.Sprintf("timed out after %s: %s", duration.Text(k.wait), what)
	}
	return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: %s", k.called(r.Path), what)}
}

// resting returns what this client waits for at the head of the queue: --min-hold of an earlier holder. It returns
// "" if there is none.
func (k *Taker) resting(ctx context.Context, c *zk.Client, path string, queue []holdfast.Entry, session int64) string {
	if len(queue) == 0 || queue[0].Session != session || !queue[0].Held {
		return ""
	}
	return term.Escape(k.reservation(ctx, c, path))
}

// reservation returns until when and for whom a lock is kept, or "" if it is not or cannot be read.
func (k *Taker) reservation(ctx context.Context, c *zk.Client, path string) string {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	r, err := reserve.Of(ctx, c, path, k.Kind.Layout.Layout)
	if err != nil || r == nil {
		return ""
	}
	return show.Reservation(r)
}
