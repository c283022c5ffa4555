package hold

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"holdfast"
	"holdfast/internal/budget"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/zk"
)

const (
	// lookPatience limits a read of the queue for a message, and lookedAt the places that it reads.
	lookPatience = 2 * time.Second
	lookedAt     = 1000
)

// notice reports on stderr, after a second of waiting, the holder and this client's position. It
// reports again in each new session, where the client has a new place. stop ends the reports, and
// returns after the last one.
func (k *Taker) notice(ctx context.Context, c *zk.Client) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if k.say.Live() {
			k.show(ctx, c)
			return
		}
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
			case <-time.After(term.NoticeAfter):
			}
			for _, path := range k.paths() {
				queue := k.look(ctx, c, path)
				what := cmp.Or(waitingFor(queue, session.ID(), k.Kind.node), k.resting(ctx, c, path, queue, session.ID()))
				if what != "" && ctx.Err() == nil {
					k.say.Line("waiting for %s: %s", k.awaited(path), what)
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

// busy returns the error of a lock that another client holds, with the holder if it can be read: then known is true. The
// first node of a queue can be this client's own, since a wait can end while the client reads whether the lock is
// reserved.
func (k *Taker) busy(ctx context.Context, c *zk.Client) (known bool, _ error) {
	name, what := k.Name, "locked"
	for _, path := range k.paths() {
		queue := k.blocking(path, k.look(ctx, c, path))
		why := ""
		if len(queue) == 0 || k.owns(ctx, c, queue[0]) {
			why = k.reservation(ctx, c, path)
		} else {
			why = show.HeldBy(queue[0], time.Now())
		}
		if why != "" {
			name, what, known = k.called(path), why, true
			break
		}
	}
	if k.bounded {
		what = fmt.Sprintf("timed out after %s: %s", duration.Text(k.wait), what)
	}
	return known, &term.Fault{Code: term.ExitBusy, Err: fmt.Errorf("%s: %s", name, what)}
}

// owns reports whether a place in a queue is of this client's session.
func (k *Taker) owns(ctx context.Context, c *zk.Client, e holdfast.Entry) bool {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	session, err := c.Session(ctx)
	return err == nil && session.ID() == e.Session
}

// waitingFor returns the holder and the session's position in a queue, or "" if the session does not
// wait. A waiter for a single node has no position.
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
		return show.HeldBy(queue[0], time.Now())
	case position == 0 && len(queue) >= lookedAt && queue[0].Held && queue[0].Session != session && waiters == 0:
		return show.HeldBy(queue[0], time.Now())
	case position == 0 && len(queue) >= lookedAt && queue[0].Held && queue[0].Session != session:
		return fmt.Sprintf("%s, with %d or more waiting before this one", show.HeldBy(queue[0], time.Now()), waiters)
	case position == 0:
		return ""
	case !queue[0].Held: // at a semaphore's turnstile, while a holder releases
		return fmt.Sprintf("position %d of %d", position, waiters)
	}
	return fmt.Sprintf("%s, position %d of %d", show.HeldBy(queue[0], time.Now()), position, waiters)
}

// awaited names a lock in a message about the wait. Its holder can be a program of another library.
func (k *Taker) awaited(path string) string {
	name := term.Escape(k.called(path))
	if layout := k.Kind.Layout.Name; layout != "curator" && layout != "" {
		name += " (layout " + term.Escape(layout) + ")"
	}
	return name
}

// called returns the name of one of this command's locks.
func (k *Taker) called(path string) string {
	if path == k.Path {
		return k.Name // as the user gave it
	}
	if k.Kind.tree {
		return k.treeName(path)
	}
	return k.LockName(path)
}

// look reads the queue for a message. If it cannot, the message has less.
func (k *Taker) look(ctx context.Context, c *zk.Client, path string) []holdfast.Entry {
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	queue, err := holdfast.List(budget.WithMost(ctx, lookedAt), c, path, k.Kind.Layout.Layout)
	if err != nil {
		return nil
	}
	return queue
}

// show shows the place in the queue until ctx ends.
func (k *Taker) show(ctx context.Context, c *zk.Client) {
	defer k.say.Progress(term.SlotQueue, "")
	queues, rests := make(map[string][]holdfast.Entry), make(map[string]string)
	var looked time.Time
	step := term.NoticeAfter
	for {
		session, err := c.Session(ctx)
		if err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-session.Context().Done():
			looked = time.Time{}
			continue
		case <-time.After(step):
		}
		step = term.ProgressStep
		if time.Since(looked) >= lookAgain {
			looked = time.Now()
			for _, path := range k.paths() {
				queues[path] = k.look(ctx, c, path)
				rests[path] = k.resting(ctx, c, path, queues[path], session.ID())
			}
		}
		text := ""
		for _, path := range k.paths() {
			if what := cmp.Or(waitingFor(queues[path], session.ID(), k.Kind.node), rests[path]); what != "" && text == "" {
				text = fmt.Sprintf("waiting for %s: %s", k.awaited(path), what)
			}
		}
		if d := k.stuck.Load(); d != nil {
			text = fmt.Sprintf("waiting for %s: deadlock: %s", term.Escape(k.Name), d.Cycle)
		}
		k.say.Progress(term.SlotQueue, text)
	}
}

// lookAgain is how often the line's queue is read.
const lookAgain = 2 * time.Second
