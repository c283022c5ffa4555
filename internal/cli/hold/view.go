package hold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/budget"
	"holdfast/internal/cli/see"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/reserve"
	"holdfast/zk"
)

const (
	// lookPatience limits a read of the queue for a message, and lookedAt the places that it reads.
	lookPatience = 2 * time.Second
	lookedAt     = 1000
)

// A view reads the queues of a plan's locks, for messages and checks.
type view struct {
	plan   *Plan
	client *zk.Client
}

// look reads the queue for a message. If it cannot, the message has less.
func (v view) look(ctx context.Context, path string) []holdfast.Entry {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	queue, err := holdfast.List(budget.WithMost(ctx, lookedAt), v.client, path, v.plan.kind.Layout.Layout)
	if err != nil {
		return nil
	}
	return queue
}

// busy returns the error of a lock that another client holds, with the holder if it can be read: then known is true. The
// first node of a queue can be this client's own, since a wait can end while the client reads whether the lock is
// reserved.
func (v view) busy(ctx context.Context) (known bool, _ error) {
	name, what := v.plan.Name, "locked"
	for _, path := range v.plan.paths() {
		queue := v.blocking(path, v.look(ctx, path))
		why := ""
		if len(queue) == 0 || v.owns(ctx, queue[0]) {
			why = v.reservation(ctx, path)
		} else {
			why = show.HeldBy(queue[0], time.Now())
		}
		if why != "" {
			name, what, known = v.plan.called(path), why, true
			break
		}
	}
	return known, v.plan.busy(name, what)
}

// blocking returns the places in a queue that can keep this command waiting. In the queues of its ancestors in a
// tree, it shares with readers.
func (v view) blocking(path string, queue []holdfast.Entry) []holdfast.Entry {
	if !slices.Contains(v.plan.place.above, path) {
		return queue
	}
	return slices.DeleteFunc(queue, func(e holdfast.Entry) bool { return e.Shared })
}

// owns reports whether a place in a queue is of this client's session.
func (v view) owns(ctx context.Context, e holdfast.Entry) bool {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	session, err := v.client.Session(ctx)
	return err == nil && session.ID() == e.Session
}

// resting returns what this client waits for at the head of the queue: --min-hold of an earlier holder. It returns
// "" if there is none.
func (v view) resting(ctx context.Context, path string, queue []holdfast.Entry, session int64) string {
	if len(queue) == 0 || queue[0].Session != session || !queue[0].Held {
		return ""
	}
	return term.Escape(v.reservation(ctx, path))
}

// reservation returns until when and for whom a lock is kept, or "" if it is not or cannot be read.
func (v view) reservation(ctx context.Context, path string) string {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	r, err := reserve.Of(ctx, v.client, path, v.plan.kind.Layout.Layout)
	if err != nil || r == nil {
		return ""
	}
	return show.Reservation(r)
}

// lonely fails if a lock's directory has nodes that look like places in a queue, but have names of no
// layout. Lock ignores such nodes. Their owners may hold the lock, so no command may start.
func (v view) lonely(ctx context.Context) error {
	if v.plan.kind.node {
		return nil // there is no directory
	}
	for _, path := range v.plan.paths() {
		for _, node := range see.Strangers(ctx, v.client, path, v.plan.kind.Layout.Layout) {
			if node.Kind == "" {
				return term.Misconfigured(shareHint(node.Path),
					"%s: the node %s looks like a place in a queue, but its name fits neither layout %s nor another one: its owner may hold the lock at the same time",
					v.plan.called(path), node.Path, v.plan.kind.Layout.Name)
			}
		}
	}
	return nil
}

// shareHint says what to do about a node with a number in no known form. Its form is guessed from its name.
func shareHint(node string) string {
	pattern := "form:" + locks.Pattern(node[strings.LastIndexByte(node, '/')+1:])
	if _, err := holdfast.ParseLayout(pattern); err != nil {
		pattern = "form:PATTERN"
	}
	return fmt.Sprintf("if its program is to share this lock, give --layout '%s': the program must be able to read our names. Otherwise choose another name for the lock, or remove the node if it is unused", pattern)
}
