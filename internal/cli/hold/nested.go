package hold

import (
	"context"
	"fmt"
	"time"

	"holdfast"
	"holdfast/internal/cli/outer"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
)

// deadlock returns an error if an ancestor holds the lock, since the wait would never end. --try does
// not wait, so it finds the lock busy instead. beside are the paths of the locks that an ancestor shares with this
// process: see watchShared.
func (p *Plan) deadlock() (beside []string, err error) {
	if p.try {
		return nil, nil
	}
	held := outer.Locks()
	for _, path := range p.paths() {
		ours := p.held(path)
		permits, shares, found := 0, true, false
		for _, theirs := range held {
			if theirs.Key != ours.Key {
				continue
			}
			found = true
			shares = shares && theirs.Shared
			switch {
			case theirs.Shared && ours.Shared:
			case theirs.Limit > 0 && ours.Limit > 0:
				permits += theirs.Permits
			default:
				return nil, p.wouldDeadlock(path, "the holdfast run around this command holds it")
			}
		}
		if permits > 0 && permits+ours.Permits > ours.Limit {
			return nil, p.wouldDeadlock(path, fmt.Sprintf("the holdfast run around this command holds %d of the %d permits, so %d more never become free",
				permits, ours.Limit, ours.Permits))
		}
		if found && shares {
			beside = append(beside, path)
		}
	}
	return beside, nil
}

func (p *Plan) wouldDeadlock(path, why string) error {
	return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("%s: would deadlock: %s", p.called(path), why), Hint: "acquire the lock once, in the outer holdfast run, or give --try"}
}

// watchShared cancels a wait that would never end: an ancestor shares the lock, and a writer that waits
// for the ancestor is ahead of this process. It returns when ctx ends, or when it has seen this
// process's places without such a writer. A writer that joins later is behind them.
func (v view) watchShared(ctx context.Context, beside []string, cancel context.CancelCauseFunc) {
	left := beside
	for pause := 50 * time.Millisecond; len(left) > 0; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		session, err := v.client.Session(ctx)
		if err != nil {
			return
		}
		var unseen []string
		for _, path := range left {
			writer, seen := writerAhead(v.look(ctx, path), session.ID())
			if writer != nil {
				cancel(v.plan.wouldDeadlock(path, fmt.Sprintf("the holdfast run around this command shares it, and a writer waits in between: %s",
					show.Owner(*writer))))
				return
			}
			if !seen {
				unseen = append(unseen, path)
			}
		}
		left = unseen
	}
}

// writerAhead looks for the place of session in a queue, and for a waiting writer ahead of it.
func writerAhead(queue []holdfast.Entry, session int64) (writer *holdfast.Entry, seen bool) {
	for i, e := range queue {
		if e.Session == session {
			return writer, true
		}
		if !e.Held && !e.Shared {
			writer = &queue[i]
		}
	}
	return nil, false
}
