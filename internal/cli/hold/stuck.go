package hold

import (
	"context"
	"fmt"
	"os"

	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/outer"
	"holdfast/internal/cli/term"
	"holdfast/zk"
)

// tellDeadlock tells the user if the wait is in a deadlock. Only a client that holds a lock meanwhile can be in one: in the
// command of a holdfast run, or with --also. stop returns when nothing more will be told.
func (k *Taker) tellDeadlock(ctx context.Context, c *zk.Client) (stop func()) {
	if outer.Session(k.Target.URL) == 0 && len(k.also) == 0 || k.Kind.node {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	w := deadlock.Watch{
		Client: c, Prefixes: deadlock.Prefixes(k.Flags, append(outer.Paths(k.Target.URL), k.paths()...)), LockName: k.LockName,
		Called: "this holdfast", End: fmt.Sprintf("press ctrl-C, or: kill %d", os.Getpid()),
	}
	go func() {
		defer close(done)
		w.Run(ctx, func(d *deadlock.Deadlock) {
			k.stuck.Store(d)
			name := term.Escape(term.Cut(k.Name, 80))
			if d == nil {
				k.say.Line("%s: the deadlock is over", name)
				return
			}
			k.say.Line("%s: deadlock: %s", name, d.Cycle)
			k.say.Line("%s: %s", name, d.End)
		})
	}()
	return func() {
		cancel()
		<-done
		k.stuck.Store(nil)
	}
}
