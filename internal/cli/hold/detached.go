package hold

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"holdfast"
	"holdfast/internal/cli/term"
	"holdfast/internal/supervise"
)

// detachedFlags are --detached and --expires of lock.
type detachedFlags struct {
	on      bool
	expires time.Duration
}

func (f *detachedFlags) register(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.on, "detached", false, "print id=ID token=N, and expires=TIME with --expires, and exit; the lock stays held until holdfast unlock")
	term.DurationVar(cmd.Flags(), &f.expires, "expires", "", 0, "with --detached: the lock ends this long after lock has asked for it, by the server's clock (default: never). When lock has it, at least half of this time is left")
}

// check refuses flags that do not go together.
func (f *detachedFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed("expires")
	switch {
	case given && !f.on:
		return term.Usage("add --detached: any other lock ends with its process", "--expires needs --detached")
	case given && f.expires < time.Millisecond:
		return term.Usage("give a time such as 2h, or leave --expires out for a lock without an end", "--expires %v: want 1ms or more", f.expires)
	case !f.on:
		return nil
	}
	for _, other := range []string{"stdin", "shared", "exclusive", "of", "also", "node", "tree", "slot"} {
		if cmd.Flags().Changed(other) {
			return term.Usage("a detached lock is one exclusive lock", "--detached and --%s do not go together", other)
		}
	}
	return nil
}

// A claimer is a Locker for a lock that no session owns. Its Holds are nil: claim has the lock.
type claimer struct {
	*holdfast.Detached
	claim holdfast.Claim
}

func (c *claimer) Lock(ctx context.Context) (_ *holdfast.Hold, err error) {
	c.claim, err = c.Detached.Lock(ctx)
	return nil, err
}

func (c *claimer) TryLock(ctx context.Context) (_ *holdfast.Hold, err error) {
	c.claim, err = c.Detached.TryLock(ctx)
	return nil, err
}

// withdraw releases the lock again.
func (c *claimer) withdraw(patience time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.Unlock(ctx, c.claim.ID)
}

// lockDetached implements lock --detached. The command line is checked.
func (k *Taker) lockDetached() error {
	if err := k.deadlock(); err != nil {
		return err
	}
	signals := make(chan os.Signal, 16)
	supervise.SurviveBrokenPipe()
	supervise.Notify(signals, supervise.StopSignals...)
	k.say = k.Log.NewLiveSayer(os.Stderr)
	defer k.say.Flush()
	t, err := k.take(signals)
	if err != nil {
		if c := k.contact.Load(); c != nil && c.Lost() > 0 {
			k.say.Line("no server answers. If %s became free just now, it may be held: see holdfast status %[1]s later", term.Escape(term.Cut(k.Name, 80)))
		}
		return err
	}
	defer t.Close()
	c := k.claims.claim
	line := fmt.Sprintf("id=%s token=%d", c.ID, c.Token)
	if !c.Expires.IsZero() {
		line += " expires=" + c.Expires.UTC().Format(time.RFC3339)
	}
	select {
	case sig := <-signals: // perhaps nobody reads the id any more
		_ = t.release()
		return term.EndedBy(sig)
	default:
	}
	if _, err := fmt.Println(line); err != nil {
		_ = t.release()
		return cannotReport(err)
	}
	k.say.Line("to release %s: holdfast unlock --id %s %[1]s", term.Escape(k.Name), c.ID)
	return nil
}
