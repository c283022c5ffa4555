package main

import (
	"fmt"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"holdfast/internal/supervise"
)

func newLock(g *globals) *cobra.Command {
	var wait waitFlags
	var kind kindFlags
	var who whoFlags
	cmd := &cobra.Command{
		Use:   "lock [flags] LOCK",
		Short: "Hold a lock until interrupted",
		Long: `lock waits for the lock, and prints one line on stdout when it holds it. INT (ctrl-C) or TERM
releases the lock.

Exit codes:
  0    INT or TERM released the lock
  2    wrong command line
  69   no server answered within --wait
  75   busy: the lock was held (--try), or the wait timed out (--wait)
  77   no permission
  78   wrong configuration
  79   the lock was lost
  128+N  signal N arrived during the wait, or a signal N other than INT and TERM released the lock`,
		Example: `  holdfast lock db/migrate
  holdfast lock --try --why "by hand" db/migrate`,
		Args: operands("lock"),
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := g.newTaker(cmd, &wait, &kind, args[0])
			if err != nil {
				return err
			}
			if err := who.apply(k); err != nil {
				return err
			}
			return k.lock()
		},
	}
	wait.register(cmd)
	kind.register(cmd)
	who.register(cmd)
	return cmd
}

func (k *taker) lock() error {
	signals := make(chan os.Signal, 16)
	supervise.SurviveBrokenPipe()
	supervise.Notify(signals, supervise.StopSignals...)
	k.say = k.newLiveSayer(os.Stderr)
	defer k.say.flush()
	t, err := k.take(signals)
	if err != nil {
		return err
	}
	defer t.close()
	k.say.line("to release %s, press ctrl-C or: kill %d", escape(k.name), os.Getpid())
	_, err = fmt.Printf("held %s token=%d session=0x%x\n", escape(k.name), k.token(t.hold), uint64(t.hold.SessionID()))
	if err != nil {
		_ = t.hold.Unlock()
		return fmt.Errorf("lock: cannot report that the lock is held: %w", err)
	}
	select {
	case sig := <-signals:
		if err := t.hold.Unlock(); err != nil {
			return err
		}
		if sig != os.Interrupt && sig != syscall.SIGTERM {
			return exitCode(exitSignal + supervise.SignalNumber(sig))
		}
		return nil
	case <-t.hold.Lost():
		return t.hold.Unlock() // its error has the cause of the loss
	}
}
