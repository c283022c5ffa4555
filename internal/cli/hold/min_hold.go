package hold

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/term"
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

// A reserver makes the lock stay held for --min-hold.
type reserver struct {
	plan *Plan
	say  *term.Sayer
	made atomic.Bool // the lock may stay held
}

// reserve makes the lock stay held for --min-hold. No command may start if it fails.
func (r *reserver) reserve(ctx context.Context, c *zk.Client, h *holdfast.Hold) error {
	if r.plan.minHold == 0 {
		return nil
	}
	if ctx.Err() != nil { // no command starts, so others must not wait
		return context.Cause(ctx)
	}
	r.made.Store(true)
	if err := reserve.For(h.Context(), h, r.plan.minHold); err != nil {
		r.undo(c, h) // it may be recorded all the same
		return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("%s: the command was not started: %w", r.plan.Name, err)}
	}
	return nil
}

// undo undoes reserve, since the command did not start: otherwise others would wait for nothing.
func (r *reserver) undo(c *zk.Client, h *holdfast.Hold) {
	if r.plan.minHold == 0 || reserve.Cancel(h.Context(), h) == nil {
		r.made.Store(false)
		return
	}
	// The lock is lost, or no server answers. When the lock's node is gone, no transaction on its way can reserve the lock.
	_ = h.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), r.plan.Flags.Patience())
	defer cancel()
	found, err := reserve.Of(ctx, c, r.plan.Path, r.plan.kind.Layout.Layout)
	if err == nil && found != nil && found.Token == r.plan.token(h) {
		err = found.End(ctx, c)
	}
	if r.made.Store(false); err != nil && !errors.Is(err, holdfast.ErrNotHeld) {
		r.left(err)
	}
}

// left says that the lock may stay reserved, although no command was started.
func (r *reserver) left(err error) {
	why := ""
	if _, stopped := errors.AsType[term.ExitCode](err); !stopped {
		why = ": " + term.Escape(term.Cut(err.Error(), 250))
	}
	r.say.Line("%s: others may have to wait for --min-hold, though the command was not started%s. To end that, see holdfast break",
		term.Escape(term.Cut(r.plan.Name, 80)), why)
}
