package main

import (
	"context"
	"fmt"
	"time"

	"holdfast"
	"holdfast/zk"
)

const (
	// noticeAfter is how long a wait stays without a word.
	noticeAfter = time.Second
	// lookPatience bounds a look at the queue that is made only for a message.
	lookPatience = 2 * time.Second
)

// notice says on stderr whom we wait for if the wait lasts, once for each session: in a new
// one we have a new place. The function that it returns ends this, and returns when nothing
// more will be said.
func (k *taker) notice(ctx context.Context, c *zk.Client) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			session, err := c.Session(ctx)
			if err != nil {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-session.Context().Done():
				continue
			case <-time.After(noticeAfter):
			}
			for _, path := range k.paths() {
				if what := waitingFor(k.look(ctx, c, path), session.ID(), k.kind.node); what != "" && ctx.Err() == nil {
					k.say.line("waiting for %s: %s", escape(k.called(path)), what)
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-session.Context().Done():
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// busy is the error of a lock that was not acquired in time.
func (k *taker) busy(ctx context.Context, c *zk.Client) error {
	name, what := k.name, "locked"
	for _, path := range k.paths() {
		if queue := k.look(ctx, c, path); len(queue) > 0 {
			name, what = k.called(path), "held by "+holder(queue[0], time.Now())
			break
		}
	}
	if k.bounded {
		what = fmt.Sprintf("timed out after %v: %s", k.wait, what)
	}
	return &fault{exitBusy, fmt.Errorf("%s: %s", name, what), ""}
}

// waitingFor says whom the session waits for in a queue, "" if it does not. Who waits for
// a single node has no place to be seen.
func waitingFor(queue []holdfast.Entry, session int64, node bool) string {
	position, waiters := 0, 0
	for _, e := range queue {
		if !e.Held {
			waiters++
			if e.Session == session && position == 0 {
				position = waiters
			}
		}
	}
	switch {
	case node && len(queue) > 0 && queue[0].Session != session:
		return "held by " + holder(queue[0], time.Now())
	case position == 0:
		return ""
	case !queue[0].Held: // at a semaphore's turnstile, while somebody else lets go
		return fmt.Sprintf("position %d of %d", position, waiters)
	}
	return fmt.Sprintf("held by %s, position %d of %d", holder(queue[0], time.Now()), position, waiters)
}

// called is the name of one of our locks.
func (k *taker) called(path string) string {
	if path == k.path {
		return k.name // as the user gave it
	}
	return k.lockName(path)
}

// look lists the queue for a message; what cannot be seen is left out of the message.
func (k *taker) look(ctx context.Context, c *zk.Client, path string) []holdfast.Entry {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	queue, err := holdfast.List(ctx, c, path, holdfast.WithLayout(k.kind.layout.Layout))
	if err != nil {
		return nil
	}
	return queue
}

// holder describes the one at the head of a queue, control characters and all: what is
// printed is escaped as a whole.
func holder(e holdfast.Entry, now time.Time) string { return ownerOf(e) + " for " + heldFor(e, now) }

// heldFor is how long a lock has been held. If that is not known, it is an upper bound: the
// time since the holder joined the queue.
func heldFor(e holdfast.Entry, now time.Time) string {
	if e.HeldSince.IsZero() {
		return "≤" + age(e.Since, now)
	}
	return age(e.HeldSince, now)
}

// ownerOf is the name of a place's owner, with the reason.
func ownerOf(e holdfast.Entry) string {
	s := e.Owner
	if s == "" {
		s = fmt.Sprintf("session 0x%x", uint64(e.Session))
	}
	s = escape(s)
	if e.Reason != "" {
		s += ` ("` + escape(e.Reason) + `")`
	}
	return s
}
