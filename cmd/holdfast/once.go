package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/act"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/once"
	"holdfast/zk"
)

// onceMemory is how long the key of a job that is done is remembered at least.
const onceMemory = 30 * 24 * time.Hour

// onceFlags are --once-per and --once-key: a job that is done is not repeated.
type onceFlags struct {
	per  time.Duration
	key  string
	used bool

	turn     *once.Turn // ours, once the lock is held
	recorded bool       // the job is recorded as done
}

func (f *onceFlags) register(cmd *cobra.Command) {
	term.DurationVar(cmd.Flags(), &f.per, "once-per", "", 0, "run the job at most once in this time, on any host: exit 75 if a run that succeeded joined the queue less than this time before this one, by the server's clock. Choose a little less than the period of the schedule")
	cmd.Flags().StringVar(&f.key, "once-key", "", "run the job at most once for this key, such as the date: exit 75 if it has succeeded before, on any host. Keys are remembered for 30 days")
}

// check refuses values out of range, and flags that do not go together.
func (f *onceFlags) check(cmd *cobra.Command) error {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	f.used = given("once-per") || given("once-key")
	switch {
	case !f.used:
		return nil
	case given("once-per") && given("once-key"):
		return term.Usage("", "--once-per and --once-key do not go together")
	case given("once-per") && (f.per < time.Millisecond || f.per > onceMemory):
		return term.Usage("give a time such as 59m for an hourly job", "--once-per %v: want 1ms to %v", f.per, onceMemory)
	case given("once-key") && (f.key == "" || len(f.key) > once.MaxKey):
		return term.Usage(`give a key such as "$(date +%F)"`, "--once-key %q has %d bytes; want 1 to %d", term.Cut(f.key, 40), len(f.key), once.MaxKey)
	}
	name := "--once-per"
	if given("once-key") {
		name = "--once-key"
	}
	return needsOneExclusive(cmd, name)
}

// needsOneExclusive refuses flag with kinds of lock that several commands hold at once, and with several locks.
func needsOneExclusive(cmd *cobra.Command, flag string) error {
	for _, other := range []string{"shared", "of", "also", "node", "slot", "tree"} {
		if cmd.Flags().Changed(other) {
			return term.Usage("", "%s and --%s do not go together: it needs one lock with one holder at a time", flag, other)
		}
	}
	return nil
}

// errDone is wrapped by the error of a job that is done already.
var errDone = errors.New("already done")

// errNotRecorded is wrapped by the error of a job that has succeeded and is not recorded as done.
var errNotRecorded = errors.New("not recorded")

// look returns an error if the job is done already. h is the lock.
func (f *onceFlags) look(ctx context.Context, k *taker, c *zk.Client, h *holdfast.Hold) error {
	if !f.used {
		return nil
	}
	o := onceOf(c, k.path, k.kind.layout.Layout, once.WithLock(holdfast.WithOwner(k.who)), once.ForgetAfter(onceMemory))
	job := o.Every(f.per)
	if f.key != "" {
		job = o.Key(f.key)
	}
	var last once.Result
	var err error
	f.turn, last, err = job.Turn(ctx, h)
	if err != nil {
		return k.failed(err)
	}
	if f.turn != nil {
		return nil
	}
	return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: %w at %s by %s", k.name, errDone, see.DoneAt(&last).Format(time.RFC3339), last.Owner)}
}

// onceOf returns the Once with the jobs of the lock at path. The locks of named:NAME share a path, so each of them has
// its own jobs.
func onceOf(c *zk.Client, path string, layout holdfast.Layout, opts ...once.Option) *once.Once {
	path += "/" + conn.OwnDirectory
	if strings.HasPrefix(layout.Name, "named:") {
		path += "/" + layout.Name
	}
	return once.New(c, path, opts...)
}

// done records that the job is done. It must be called before the lock is released.
func (f *onceFlags) done() error {
	if f.turn == nil {
		return nil
	}
	_, err := f.turn.Done(context.Background(), nil)
	f.recorded = err == nil
	return err
}

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
func forgetRun(ctx context.Context, g *conn.Flags, cmd *cobra.Command, c *zk.Client, f forgetFlags, how act.Flags, name, path string, layout holdfast.Layout) error {
	o := onceOf(c, path, layout, once.WithLock(holdfast.WithOwner(conn.Owner())))
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
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s\nThe job can run again: holdfast run %s finds no run any more.\n", term.Escape(name), term.Escape(see.LastRun(seen)), term.Escape(flag))
	if err := how.Confirm(cmd, "remove the record", name); err != nil {
		return err
	}
	e := deed.Entry{Action: "break " + term.Cut(flag, deed.MaxText)}
	e.Places = []deed.Place{{Path: term.Cut(path, deed.MaxText), Owner: term.Cut(seen.Owner, deed.MaxText), Token: strconv.FormatInt(seen.Token, 10)}}
	err = act.Audited(ctx, g, cmd, c, e, how.Reason, func() error {
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
