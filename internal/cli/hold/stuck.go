package hold

import (
	"context"
	"fmt"
	"os"

	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/outer"
	"holdfast/internal/cli/term"
)

// tellDeadlock tells the user if the wait is in a deadlock, until ctx ends. If the wait is its victim, tellDeadlock calls
// giveUp. A client that holds no lock meanwhile cannot be in one, except between readers: then nobody is told of it, unless it
// can be the victim. A client holds locks in the command of a holdfast run, or with --also.
func (p *progress) tellDeadlock(ctx context.Context, giveUp context.CancelCauseFunc) {
	url := p.plan.Target.URL
	if outer.Session(url) == 0 && len(p.plan.also) == 0 && !p.plan.yields || p.plan.kind.node {
		return
	}
	w := deadlock.Watch{
		Client: p.client, Prefixes: deadlock.Prefixes(p.plan.Flags, append(outer.Paths(url), p.plan.paths()...)), LockName: p.plan.Flags.LockName,
		Yield: p.plan.yields, Called: "this holdfast", End: fmt.Sprintf("press ctrl-C, or: kill %d", os.Getpid()),
	}
	w.Run(ctx, func(d *deadlock.Deadlock) {
		p.stuck.Store(d)
		name := term.Escape(term.Cut(p.plan.Name, 80))
		switch {
		case d == nil:
			p.say.Line("%s: the deadlock is over", name)
		case d.Victim:
			giveUp(&term.Fault{
				Code: term.ExitDeadlock, Err: fmt.Errorf("%s: deadlock: %s", p.plan.Name, d.Cycle),
				Hint: fmt.Sprintf("this wait gives up, so that the others go on: release %s, then try again", d.Release),
			})
		default:
			p.say.Line("%s: deadlock: %s", name, d.Cycle)
			p.say.Line("%s: %s", name, d.End)
		}
	})
}
