package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/zk"
)

// maxListed is how many locks a list for a model has, and maxPlaces how many of their holders and waiters. The first
// place of each lock is there in any case.
const (
	maxListed = 100
	maxPlaces = 1000
)

func (a *agent) list(ctx context.Context, c *toolCall) (*toolResult, error) {
	var args struct {
		Prefix string `json:"prefix"`
	}
	if err := c.arguments(&args); err != nil {
		return nil, err
	}
	survey, _, err := a.survey(ctx)
	if err != nil {
		return nil, told(err)
	}
	now := time.Now()
	var lines []string
	docs := []show.Document{}
	room, left, more := maxPlaces, 0, 0
	for _, l := range inUse(survey) {
		path := l.Dirs[0] // of its queue, also in a tree: leases are named by it
		name := a.nameOf(path)
		switch {
		case !strings.HasPrefix(name, args.Prefix) && !strings.HasPrefix(path, args.Prefix):
			continue
		case len(docs) == maxListed:
			more++
			continue
		}
		shown := l.Queue[:max(min(len(l.Queue), room), 1)]
		room -= len(shown)
		left += len(l.Queue) - len(shown)
		docs = append(docs, show.Describe(name, path, shown, now))
		lines = append(lines, fmt.Sprintf("%s: %s%s", term.Escape(name), words(&l, now), a.holds.own(path)))
	}
	text := strings.Join(lines, "\n")
	if len(lines) == 0 {
		text = "Nobody holds anything or waits."
	}
	if more > 0 {
		text += fmt.Sprintf("\n%d more; give a longer prefix.", more)
	}
	result := map[string]any{"locks": docs, "more": more}
	if left > 0 {
		text += fmt.Sprintf("\n%d holders and waiters are not in the data; give a longer prefix.", left)
		result["more_places"] = left
	}
	return answer(text, result), nil
}

// survey reads all locks of the namespace, in all layouts, at one moment. It also returns the session of the agent.
func (a *agent) survey(ctx context.Context) (_ *locks.Survey, session int64, _ error) {
	link, err := a.link.connected(ctx)
	if err != nil {
		return nil, 0, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.Patience(), conn.ErrUnreachable)
	defer cancel()
	own, err := link.Client.Session(ctx)
	if err != nil {
		return nil, 0, err
	}
	s, err := locks.Read(ctx, link.Client, locks.Query{Prefix: strings.TrimSuffix(a.Namespace, "/") + "/"})
	if errors.Is(err, zk.ErrNoNode) {
		s, err = new(locks.Survey), nil // nobody has used a lock yet
	}
	return s, own.ID(), err
}

// inUse returns the locks that somebody holds or waits for. In a tree, readers hold or wait for paths below, so they are left
// out. A place in a tree is held when all of its parts are: the place as a writer, and those as a reader of the paths above it.
func inUse(s *locks.Survey) (all []locks.Lock) {
	waiting := make(map[int64][]string) // the queues in which a session waits as a reader
	for _, l := range s.Locks {
		for _, p := range l.Queue {
			if p.Shared && !p.Held {
				waiting[p.Session] = append(waiting[p.Session], l.Dirs[0])
			}
		}
	}
	for _, l := range s.Locks {
		if l.Root != "" {
			l.Queue = slices.DeleteFunc(l.Queue, func(p locks.Place) bool { return p.Shared })
			for i, p := range l.Queue {
				if slices.ContainsFunc(waiting[p.Session], func(above string) bool { return isAbove(above, l.Dirs[0]) }) {
					l.Queue[i].Held = false
				}
			}
		}
		if l.Kind != locks.Shards && !l.Unreadable && l.InUse() {
			all = append(all, l)
		}
	}
	return all
}

// words say who holds the lock and how many wait.
func words(l *locks.Lock, now time.Time) string {
	holders, waiters := l.Holders(), l.Waiters()+l.Members()
	first := l.Queue[0].Entry
	var text string
	switch {
	case holders == 0 && l.Root != "": // the user waits for a holder above it or below it
		text = "not held; waited for by " + show.Owner(first)
		waiters--
	case holders == 0: // the waiter is at a semaphore's turnstile
		text = "free; the first waiter is about to acquire it"
	default:
		text = show.HeldBy(first, now) + show.Gone(l.Queue[0])
	}
	if first.Detached {
		text += "; its id is " + term.Escape(term.Cut(first.ID, term.MaxCell))
	}
	if holders > 1 {
		text += fmt.Sprintf(" and %d more", holders-1)
	}
	switch {
	case l.Counted() && l.Limit > 0:
		text += fmt.Sprintf("; %d of %d permits in use", holders, l.Limit)
	case l.Counted():
		text += fmt.Sprintf("; %d of an unknown number of permits in use", holders)
	}
	if waiters > 0 {
		text += fmt.Sprintf(", %d more waiting", waiters)
	}
	return text
}
