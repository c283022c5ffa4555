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

// notice says on stderr whom we wait for, once, if the wait lasts. The function that it
// returns ends this and returns when nothing more will be said.
func (k *taker) notice(ctx context.Context, c *zk.Client) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-time.After(noticeAfter):
		}
		queue := k.look(ctx, c)
		session, err := c.Session(ctx)
		if err != nil || len(queue) == 0 {
			return
		}
		for i, e := range queue {
			if e.Session == session.ID() && i > 0 && ctx.Err() == nil {
				k.say.line("waiting for %s: held by %s, position %d of %d",
					escape(k.name), holder(queue[0], time.Now()), i, len(queue)-1)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// busy is the error of a lock that was not had in time.
func (k *taker) busy(ctx context.Context, c *zk.Client) error {
	what := "locked"
	if queue := k.look(ctx, c); len(queue) > 0 {
		what = "held by " + holder(queue[0], time.Now())
	}
	if k.bounded {
		what = fmt.Sprintf("not had within %v: %s", k.wait, what)
	}
	return &fault{exitBusy, fmt.Errorf("%s: %s", k.name, what), ""}
}

// look lists the queue for a message; what cannot be seen is left out of the message.
func (k *taker) look(ctx context.Context, c *zk.Client) []holdfast.Entry {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	queue, err := holdfast.List(ctx, c, k.path)
	if err != nil {
		return nil
	}
	return queue
}

// holder describes the one at the head of a queue, control characters and all: what is
// printed is escaped as a whole.
func holder(e holdfast.Entry, now time.Time) string {
	s := e.Owner
	if s == "" {
		s = fmt.Sprintf("session 0x%x", uint64(e.Session))
	}
	s = escape(s)
	if e.Reason != "" {
		s += ` ("` + escape(e.Reason) + `")`
	}
	return s + " for " + age(e.Since, now)
}
