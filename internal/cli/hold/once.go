package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/term"
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

// errDone is wrapped by the error of a job that is done already.
var errDone = errors.New("already done")

// errNotRecorded is wrapped by the error of a job that has succeeded and is not recorded as done.
var errNotRecorded = errors.New("not recorded")

// A turn is the job of --once-per or --once-key under the lock. Without these flags it is empty.
type turn struct {
	once     *once.Turn // ours, once the lock is held
	recorded bool       // the job is recorded as done
}

// look returns an error if the job is done already. h is the lock.
func (t *turn) look(ctx context.Context, p *Plan, c *zk.Client, h *holdfast.Hold) error {
	if !p.once.used {
		return nil
	}
	o := see.Jobs(c, p.Path, p.kind.Layout.Layout, once.WithLock(holdfast.WithOwner(p.Who)), once.ForgetAfter(onceMemory))
	job := o.Every(p.once.per)
	if p.once.key != "" {
		job = o.Key(p.once.key)
	}
	var last once.Result
	var err error
	t.once, last, err = job.Turn(ctx, h)
	if err != nil {
		return p.failed(err)
	}
	if t.once != nil {
		return nil
	}
	return &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: %w at %s by %s", p.Name, errDone, see.DoneAt(&last).Format(time.RFC3339), last.Owner)}
}

// done records that the job is done. It must be called before the lock is released.
func (t *turn) done() error {
	if t.once == nil {
		return nil
	}
	_, err := t.once.Done(context.Background(), nil)
	t.recorded = err == nil
	return err
}
