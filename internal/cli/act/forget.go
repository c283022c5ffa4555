package act

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/once"
	"holdfast/zk"
)

// forgetFlags are --once-per and --once-key of break: they end the record of a job, so that it can run again.
type forgetFlags struct {
	per bool
	key string
}

func (f *forgetFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.per, "once-per", false, "instead of the holder: remove the record of the last run with --once-per")
	cmd.Flags().StringVar(&f.key, "once-key", "", "instead of the holder: remove the record of the run with this --once-key")
}

// used reports whether one of the flags is given. It refuses flags that do not go together.
func (f *forgetFlags) used(cmd *cobra.Command) (bool, error) {
	key := cmd.Flags().Changed("once-key")
	switch {
	case !f.per && !key:
		return false, nil
	case f.per && key:
		return true, term.Usage("", "--once-per and --once-key do not go together")
	case cmd.Flags().Changed("token"):
		return true, term.Usage("leave --token out", "--token is for the holder of a lock, and --once-per and --once-key are for the record of a job")
	case key && (f.key == "" || len(f.key) > once.MaxKey):
		return true, term.Usage("give the key of the run", "--once-key %q has %d bytes; want 1 to %d", term.Cut(f.key, 40), len(f.key), once.MaxKey)
	}
	return true, nil
}

// job returns the job whose run the flags name.
func (f *forgetFlags) job(o *once.Once) *once.Job {
	if f.per {
		return o.Every(time.Hour) // any period will do
	}
	return o.Key(f.key)
}

// forgetRun shows the record of a job, asks, and removes it.
func forgetRun(ctx context.Context, g *conn.Flags, cmd *cobra.Command, c *zk.Client, f forgetFlags, how Flags, name, path string, layout holdfast.Layout) error {
	o := see.Jobs(c, path, layout, once.WithLock(holdfast.WithOwner(conn.Owner())))
	seen, err := f.job(o).Recorded(ctx)
	switch {
	case err != nil:
		return err
	case seen == nil:
		return &term.Fault{Code: term.ExitNo, Err: fmt.Errorf("%s: no such run is recorded", term.Cut(name, 80))}
	}
	flag := "--once-per"
	if !f.per {
		flag = "--once-key " + f.key
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\nWithout this record, the job can run again: holdfast run %s finds no run then.\n", term.Escape(name), term.Escape(see.LastRun(seen)), term.Escape(flag))
	if err := how.Confirm(cmd, "remove the record", name); err != nil {
		return err
	}
	e := deed.Entry{Action: "break " + term.Cut(flag, deed.MaxText)}
	e.Places = []deed.Place{{Path: term.Cut(path, deed.MaxText), Owner: term.Cut(seen.Owner, deed.MaxText), Token: strconv.FormatInt(seen.Token, 10)}}
	err = Audited(ctx, g, cmd, c, e, how.Reason, func() error {
		err := f.job(o).ForgetRun(ctx, seen.Token)
		if errors.Is(err, holdfast.ErrNotHeld) {
			return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: the record has changed since; nothing was done", term.Cut(name, 80)), Hint: "run the command again to see the new one"}
		}
		return err
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed the record of %s token=%d\n", term.Escape(name), seen.Token)
	return err
}
