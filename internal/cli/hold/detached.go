package hold

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

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
	for _, other := range []string{"stdin", "shared", "exclusive", "of", "also", "node", "tree", "slot", "supersede", "queue-max"} {
		if cmd.Flags().Changed(other) {
			return term.Usage("a detached lock is one exclusive lock", "--detached and --%s do not go together", other)
		}
	}
	return nil
}

// lockDetached implements lock --detached. The command line is checked.
func lockDetached(p *Plan) error {
	beside, err := p.deadlock()
	if err != nil {
		return err
	}
	k, signals := begin(p, os.Stderr, beside, Steps{}, supervise.StopSignals...)
	defer k.say.Flush()
	t, err := k.take(signals)
	if err != nil {
		if c := k.contact.Load(); c != nil && c.Lost() > 0 {
			k.say.Line("no server answers. If %s became free just now, it may be held: see holdfast status %[1]s later", term.Escape(term.Cut(p.Name, 80)))
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
	k.say.Line("to release %s: holdfast unlock --id %s %[1]s", term.Escape(p.Name), c.ID)
	return nil
}

// cannotReport is the fault of a lock that nobody would know of. It is released again.
func cannotReport(err error) error {
	return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("lock: cannot report that the lock is held: %w", err)}
}
