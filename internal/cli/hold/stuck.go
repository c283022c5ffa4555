package hold

import (
	"context"
	"fmt"
	"os"

	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/outer"
	"holdfast/internal/cli/term"
)

// tellDeadlock tells the user if the wait is in a deadlock, until ctx ends. Only a client that holds a lock meanwhile can be
// in one: in the command of a holdfast run, or with --also.
func (p *progress) tellDeadlock(ctx context.Context) {
	url := p.plan.Target.URL
	if outer.Session(url) == 0 && len(p.plan.also) == 0 || p.plan.kind.node {
		return
	}
	w := deadlock.Watch{
		Client: p.client, Prefixes: deadlock.Prefixes(p.plan.Flags, append(outer.Paths(url), p.plan.paths()...)), LockName: p.plan.Flags.LockName,
		Called: "this holdfast", End: fmt.Sprintf("press ctrl-C, or: kill %d", os.Getpid()),
	}
	w.Run(ctx, func(d *deadlock.Deadlock) {
		p.stuck.Store(d)
		name := term.Escape(term.Cut(p.plan.Name, 80))
		if d == nil {
			p.say.Line("%s: the deadlock is over", name)
			return
		}
		p.say.Line("%s: deadlock: %s", name, d.Cycle)
		p.say.Line("%s: %s", name, d.End)
	})
}
