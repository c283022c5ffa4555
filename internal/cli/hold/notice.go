package hold

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"holdfast"
	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
)

// lookAgain is how often the line's queue is read.
const lookAgain = 2 * time.Second

// A progress tells the user about a wait.
type progress struct {
	view
	say   *term.Sayer
	stuck atomic.Pointer[deadlock.Deadlock] // the one that the wait is in, or nil
}

// tell reports on stderr, after a second of waiting, the holder and this client's position. It
// reports again in each new session, where the client has a new place, and tells of a deadlock: see tellDeadlock. stop ends the reports, and
// returns after the last one.
func (p *progress) tell(ctx context.Context, giveUp context.CancelCauseFunc) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var reports sync.WaitGroup
	reports.Go(func() {
		if p.say.Live() {
			p.show(ctx)
		} else {
			p.report(ctx)
		}
	})
	reports.Go(func() { p.tellDeadlock(ctx, giveUp) })
	return func() {
		cancel()
		reports.Wait()
	}
}

// report prints a line for each lock in each session.
func (p *progress) report(ctx context.Context) {
	for {
		session, err := p.client.Session(ctx)
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
		for _, path := range p.plan.paths() {
			if what := p.standing(ctx, path, session.ID()).text(); what != "" && ctx.Err() == nil {
				p.say.Line("%s", what)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-session.Context().Done():
		}
	}
}

// show shows the place in the queue until ctx ends.
func (p *progress) show(ctx context.Context) {
	defer p.say.Progress(term.SlotQueue, "")
	var all []standing
	var looked time.Time
	step := term.NoticeAfter
	for {
		session, err := p.client.Session(ctx)
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
			looked, all = time.Now(), nil
			for _, path := range p.plan.paths() {
				all = append(all, p.standing(ctx, path, session.ID()))
			}
		}
		text := ""
		for _, s := range all {
			text = cmp.Or(text, s.text())
		}
		if d := p.stuck.Load(); d != nil {
			text = fmt.Sprintf("waiting for %s: deadlock: %s", term.Escape(p.plan.Name), d.Cycle)
		}
		p.say.Progress(term.SlotQueue, text)
	}
}

// A standing is where a session waits for one lock, as it was read.
type standing struct {
	name    string // see awaited
	queue   []holdfast.Entry
	session int64
	node    bool
	rest    string // what a session at the head waits for; see resting
}

// standing reads where a session waits for the lock at path.
func (v view) standing(ctx context.Context, path string, session int64) standing {
	queue := v.look(ctx, path)
	return standing{v.plan.awaited(path), queue, session, v.plan.kind.node, v.resting(ctx, path, queue, session)}
}

// text returns the message about it, with the times of now, or "" if the session does not wait.
func (s standing) text() string {
	what := cmp.Or(waitingFor(s.queue, s.session, s.node), s.rest)
	if what == "" {
		return ""
	}
	return fmt.Sprintf("waiting for %s: %s", s.name, what)
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
