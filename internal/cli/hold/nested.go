package hold

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/cli/outer"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/zk"
)

// held returns the lock at path as an element of HOLDFAST_HELD. The key has the server, since the same
// name on another server is another lock. With the layout named:NAME, the key has NAME.
func (k *Taker) held(path string) outer.Lock {
	if name := k.Kind.Layout.Name; strings.HasPrefix(name, "named:") {
		path += "#" + name
	}
	h := outer.Lock{
		Key:    outer.Key(k.Target.URL, path),
		Shared: k.Kind.shared || slices.Contains(k.above, path),
	}
	if k.Kind.limit > 0 {
		h.Permits, h.Limit = k.Kind.permits, k.Kind.limit
	}
	return h
}

// heldText returns the value of HOLDFAST_HELD for the command.
func (k *Taker) heldText() string {
	var all []string
	if given := os.Getenv("HOLDFAST_HELD"); given != "" {
		all = append(all, given)
	}
	for _, path := range k.paths() {
		all = append(all, k.held(path).String())
	}
	return strings.Join(all, ":")
}

// deadlock returns an error if an ancestor holds the lock, since the wait would never end. --try does
// not wait, so it finds the lock busy instead. deadlock also notes the locks that an ancestor shares
// with this process: see watchShared.
func (k *Taker) deadlock() error {
	if k.try {
		return nil
	}
	held := outer.Locks()
	for _, path := range k.paths() {
		ours := k.held(path)
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
				return k.wouldDeadlock(path, "the holdfast run around this command holds it")
			}
		}
		if permits > 0 && permits+ours.Permits > ours.Limit {
			return k.wouldDeadlock(path, fmt.Sprintf("the holdfast run around this command holds %d of the %d permits, so %d more never become free",
				permits, ours.Limit, ours.Permits))
		}
		if found && shares {
			k.beside = append(k.beside, path)
		}
	}
	return nil
}

func (k *Taker) wouldDeadlock(path, why string) error {
	return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("%s: would deadlock: %s", k.called(path), why), Hint: "acquire the lock once, in the outer holdfast run, or give --try"}
}

// watchShared cancels a wait that would never end: an ancestor shares the lock, and a writer that waits
// for the ancestor is ahead of this process. It returns when ctx ends, or when it has seen this
// process's places without such a writer. A writer that joins later is behind them.
func (k *Taker) watchShared(ctx context.Context, c *zk.Client, cancel context.CancelCauseFunc) {
	left := k.beside
	for pause := 50 * time.Millisecond; len(left) > 0; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		session, err := c.Session(ctx)
		if err != nil {
			return
		}
		var unseen []string
		for _, path := range left {
			writer, seen := writerAhead(k.look(ctx, c, path), session.ID())
			if writer != nil {
				cancel(k.wouldDeadlock(path, fmt.Sprintf("the holdfast run around this command shares it, and a writer waits in between: %s",
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
