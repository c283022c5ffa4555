package conn

import (
	"context"
	"errors"
	"os"
	"syscall"

	"holdfast/internal/cli/term"
	"holdfast/internal/supervise"
)

// UntilStopped returns a context that INT or TERM ends. After INT, its cause is a [term.Interrupted]. A second signal ends the process.
func UntilStopped(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	stopSignals := supervise.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		var cause error
		select {
		case sig := <-signals:
			if sig == os.Interrupt {
				cause = term.EndedBy(sig)
			}
		case <-ctx.Done():
		}
		stopSignals()
		cancel(cause)
	}()
	return ctx, func() { cancel(nil) }
}

// Stay runs f with a connection until f returns or ctx ends. It is for the commands that go on when no server
// answers. The end of ctx is no error, except that ctrl-C ends the script around the command, too.
func Stay(ctx context.Context, g *Flags, say *term.Sayer, f func(*Connection) error) error {
	t, err := g.Target()
	if err != nil {
		return err
	}
	c, err := Reading(g).Connect(ctx, t, g.Patience(), say)
	if err == nil {
		defer c.Close()
		err = f(c)
	}
	key, interrupted := errors.AsType[term.Interrupted](context.Cause(ctx))
	switch {
	case err != nil && interrupted:
		return key
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return nil
	}
	return t.Explain(err)
}
