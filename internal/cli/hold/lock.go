package hold

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/job"
	"holdfast/internal/cli/term"
	"holdfast/internal/cli/who"
	"holdfast/internal/locks"
	"holdfast/internal/supervise"
	"holdfast/internal/watchdog"
)

// NewLock returns the command lock.
func NewLock(g *conn.Flags) *cobra.Command {
	var wait WaitFlags
	var kind KindFlags
	var who who.Flags
	var detached detachedFlags
	var room roomFlags
	var metrics MetricsFlag
	var stdin bool
	cmd := &cobra.Command{
		Use:        "lock [flags] LOCK",
		SuggestFor: []string{"acquire"},
		Short:      "Hold a lock until interrupted",
		Long:       lockHelp,
		Example:    lockExamples,
		Args:       term.Operands("lock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := NewPlan(g, cmd, &wait, &kind, args[0])
			if err == nil {
				err = detached.check(cmd)
			}
			if err == nil {
				err = room.check(cmd, p.try)
			}
			if err != nil {
				return err
			}
			if p.Who, p.Labels, err = who.Read(); err != nil {
				return err
			}
			p.room = room
			if p.detached = detached; detached.on {
				if cmd.Flags().Changed("metrics") {
					return term.Usage("leave out --metrics or --detached", "lock: --detached exits when the lock is held, so --metrics means nothing")
				}
				return lockDetached(p)
			}
			if p.Metrics, err = metrics.Open(cmd, nil); err != nil {
				return err
			}
			defer p.Metrics.Close()
			p.Metrics.Expect(p.paths()...)
			return holdUntilTold(p, stdin)
		},
	}
	wait.register(cmd)
	kind.register(cmd)
	who.Register(cmd)
	detached.register(cmd)
	room.register(cmd)
	metrics.Register(cmd)
	cmd.Flags().BoolVar(&stdin, "stdin", false, "release the lock when standard input ends")
	return cmd
}

// holdUntilTold implements lock. The command line is checked.
func holdUntilTold(p *Plan, stdin bool) error {
	beside, err := p.deadlock()
	if err != nil {
		return err
	}
	var heir heir
	defer heir.close()
	steps := Steps{}
	if !stdin { // a script may run on after the end of its lock --stdin, so that one has the timeout
		steps.OnConnect = heir.appoint
	}
	k, signals := begin(p, os.Stderr, beside, steps, supervise.StopSignals...)
	defer k.say.Flush()
	var ended <-chan struct{}
	if stdin {
		ended = endOfInput(signals)
	}
	t, err := k.take(signals)
	if err != nil {
		return leftWithInput(ended, p.Name, err)
	}
	defer t.Close()
	go conn.WarnOfTick(t.hold.Context(), t.Client, p.Target.ZK, k.say)
	heir.inherits(t.Will(t.hold.SessionID()))
	if stdin {
		// The script works under the lock. If it has ended, so does standard input.
		_ = t.Guard(t.hold.Context())(os.Getppid())
	}
	k.say.Line("to release %s, press ctrl-C or: kill %d", term.Escape(p.Name), os.Getpid())
	line := fmt.Sprintf("held %s token=%d session=%s", term.Escape(p.Name), p.token(t.hold), locks.SessionText(t.hold.SessionID()))
	switch {
	case p.kind.slot && p.kind.permits > 1:
		line += " slots=" + slotsText(t.hold, ",")
	case p.kind.slot:
		line += " slot=" + slotsText(t.hold, ",")
	}
	_, err = fmt.Println(line)
	if err != nil {
		_ = t.hold.Unlock()
		return cannotReport(err)
	}
	select {
	case <-ended:
		return k.unlock(t, signals)
	case sig := <-signals:
		if err := k.unlock(t, signals); err != nil {
			return err
		}
		if sig == inputEnded || sig == syscall.SIGTERM {
			return nil
		}
		return term.EndedBy(sig)
	case <-t.hold.Lost():
		return t.hold.Unlock() // its error has the cause of the loss
	}
}

// An heir is a watchdog without a job: it closes the session of a lock command that is killed. There is none where the
// server does that, see conn.Connection.Will.
type heir struct{ watchdog *supervise.Supervisor }

// appoint starts the watchdog. If that fails, the session has its timeout.
func (h *heir) appoint(c *conn.Connection) {
	s, err := c.Client.Session(context.Background())
	if err != nil {
		return
	}
	if will := c.Will(s.ID()); will != "" && h.watchdog == nil {
		h.watchdog, _ = supervise.Start(watchdog.IsHost)
		h.inherits(will)
	}
}

// inherits names the session, which may be another one than before.
func (h *heir) inherits(will string) {
	if h.watchdog != nil {
		h.watchdog.Bequeath(will)
	}
}

func (h *heir) close() {
	if h.watchdog != nil {
		h.watchdog.Close()
	}
}

// unlock releases the lock. Without contact, this can last until the session ends. Then another signal ends it.
func (k *taker) unlock(t *tenure, signals <-chan os.Signal) error {
	err, hurry := job.UnlessHurried(signals, 1, t.hold.Unlock)
	if hurry != nil {
		k.say.Line("%s: cannot release the lock; it ends with its session, in at most %v: %v", term.Escape(term.Cut(k.plan.Name, 80)), k.plan.Flags.Timeout, errHurried)
		return term.EndedBy(hurry)
	}
	return err
}

const lockHelp = `lock waits for the lock, and prints one line on stdout when it holds it. INT (ctrl-C) or TERM
releases the lock.

With --stdin, the end of standard input releases the lock, too. So a shell script can hold a lock with a
coprocess, and the lock ends with the script. If standard input ends during the wait, lock leaves the queue.

With --detached, lock prints id=ID token=N (and expires=TIME with --expires) and exits, and the lock stays
held. A script must end if lock fails, as in the example below: eval $(holdfast lock …) goes on without the
lock. No session owns it: it ends with holdfast unlock, after --expires, or with holdfast break. It waits in
the same queue as all other locks of the name, and all others wait behind it, also those of Curator and kazoo.
While lock waits, it can be killed at any time and leaves nothing behind. Nobody is told if the lock ends too
early, so prefer holdfast run where one process can hold the lock. After --expires, the next client of
holdfast that waits or tries removes the lock. If only other libraries wait, the server removes it some
minutes later; Apache ZooKeeper needs extendedTypesEnabled for that. A detached lock does not wait for the
time of run --min-hold.

A second signal ends the wait and the release at once, but lock --detached first finds out whether it holds
the lock, and releases it again. If no server answers, it says that the lock may be held.

In a command of holdfast run that holds the lock, lock fails at once, since the wait would never end.

` + MetricsHelp + `

Exit codes:
  0    TERM or the end of standard input released the lock; with --detached, the lock is held
  2    wrong command line
  35   the wait was the victim of a deadlock, and gave up (--on-deadlock fail)
  69   no server answered within --wait
  75   busy: the lock was held (--try), the wait timed out (--wait), a newer waiter took the place (--supersede), too
       many wait (--queue-max), or standard input ended during the wait
  77   no permission
  78   wrong configuration
  79   the lock was lost
  125  the holdfast run around this command holds the lock, or lock cannot write to stdout
  128+N  signal N arrived during the wait, or ended the release, or a signal N other than TERM released the lock.
         After INT (ctrl-C) or QUIT, lock ends by that signal, and so does the script or the loop around it`

const lockExamples = `  holdfast lock db/migrate
  holdfast lock --try --why "by hand" db/migrate
  claim=$(holdfast lock --detached --expires 2h deploy) || exit
  eval "$claim"                                   # sets id, token and expires
  coproc HF { holdfast lock --stdin db/migrate; }         # bash; exec {HF[1]}>&- releases it
  read -r line <&"${HF[0]}" || exit                       # until it is held`
