package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/show"
	"holdfast/internal/cli/term"
	"holdfast/internal/locks"
	"holdfast/internal/waitgraph"
	"holdfast/zk"
)

// maxListed is how many locks a list for a model has, and maxPlaces how many of their holders and waiters. The first
// place of each lock is there in any case.
const (
	maxListed = 100
	maxPlaces = 1000
)

// listParallel is how many locks list reads at a time.
const listParallel = 16

func (a *agent) list(ctx context.Context, c *toolCall) (*toolResult, error) {
	var args struct {
		Prefix string `json:"prefix"`
	}
	if err := c.arguments(&args); err != nil {
		return nil, err
	}
	link, err := a.link.connected(ctx)
	if err != nil {
		return nil, told(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.Timeout, conn.ErrUnreachable)
	defer cancel()
	graph, err := a.waits(ctx, link.Client)
	if err != nil {
		return nil, told(err)
	}
	chosen, more := a.choose(graph, args.Prefix)
	if err := readAll(ctx, link.Client, chosen, graph); err != nil {
		return nil, told(err)
	}
	now := time.Now()
	var lines []string
	docs := []show.Document{}
	room, left := maxPlaces, 0
	for _, l := range chosen {
		if len(l.queue) == 0 {
			continue // nobody is there any more
		}
		shown := l.queue[:max(min(len(l.queue), room), 1)]
		room -= len(shown)
		left += len(l.queue) - len(shown)
		docs = append(docs, show.Describe(l.name, l.Path, places(shown), now))
		lines = append(lines, fmt.Sprintf("%s: %s%s", term.Escape(l.name), l.words(now), a.holds.own(l.Path)))
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

// waits reads all locks of the namespace, in all layouts, at one moment.
func (a *agent) waits(ctx context.Context, c *zk.Client) (*waitgraph.Blocking, error) {
	root := strings.TrimSuffix(a.Namespace, "/")
	s, err := locks.Read(ctx, c, locks.Query{Prefix: root + "/"})
	if errors.Is(err, zk.ErrNoNode) {
		s, err = new(locks.Survey), nil // nobody has used a lock yet
	}
	if err != nil {
		return nil, err
	}
	all := s.Graph()
	for i := range all {
		all[i].Path = all[i].Dirs[0] // of its queue, also in a tree: leases are named by it
	}
	return waitgraph.Analyze(all).Blocking(), nil
}

// A listed lock is one that somebody holds or waits for.
type listed struct {
	*waitgraph.Lock
	name  string
	queue []holdfast.Entry // in a tree, without the readers: they hold or wait for paths below
}

// choose returns the locks whose names or paths begin with prefix, at most maxListed, and how many more there are.
func (a *agent) choose(graph *waitgraph.Blocking, prefix string) (chosen []*listed, more int) {
	for i := range graph.Locks {
		l := &listed{Lock: &graph.Locks[i]}
		l.name = a.nameOf(l.Path)
		writers := slices.ContainsFunc(l.Queue, func(p waitgraph.Place) bool { return !p.Shared })
		switch {
		case !strings.HasPrefix(l.name, prefix) && !strings.HasPrefix(l.Path, prefix), l.inTree() && !writers:
		case len(chosen) == maxListed:
			more++
		default:
			chosen = append(chosen, l)
		}
	}
	return chosen, more
}

// inTree reports whether the lock is that of a path in a tree.
func (l *listed) inTree() bool { return strings.Contains(l.Path, "/"+slash) }

// readAll reads the queues of the locks, with what the graph has not. A place in a tree is held when all of its parts
// are: the place as a writer, and those as a reader of the paths above it.
func readAll(ctx context.Context, c *zk.Client, all []*listed, graph *waitgraph.Blocking) error {
	waiting := make(map[int64][]string) // the queues in which a session waits as a reader
	for i, l := range graph.Locks {
		for j, p := range l.Queue {
			if p.Shared && !graph.Held(waitgraph.Ref{Lock: i, Place: j}) {
				waiting[p.Session] = append(waiting[p.Session], l.Path)
			}
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listParallel)
	for _, l := range all {
		group.Go(func() error {
			layout, err := holdfast.ParseLayout(cmp.Or(l.Layout, "curator"))
			if err != nil {
				return err
			}
			l.queue, err = holdfast.List(ctx, c, l.Path, layout)
			if !l.inTree() {
				return err
			}
			l.queue = slices.DeleteFunc(l.queue, func(e holdfast.Entry) bool { return e.Shared })
			for i, e := range l.queue {
				if slices.ContainsFunc(waiting[e.Session], func(above string) bool { return isAbove(above, l.Path) }) {
					l.queue[i].Held = false
				}
			}
			return err
		})
	}
	return group.Wait()
}

// places returns a queue as package locks has it.
func places(queue []holdfast.Entry) (all []locks.Place) {
	for _, e := range queue {
		all = append(all, locks.Place{Entry: e})
	}
	return all
}

// words say who holds the lock and how many wait.
func (l *listed) words(now time.Time) string {
	holders := 0
	for _, e := range l.queue {
		if e.Held {
			holders++
		}
	}
	waiters := len(l.queue) - holders
	first := l.queue[0]
	var text string
	switch {
	case holders == 0 && l.inTree(): // the user waits for a holder above it or below it
		text = "not held; waited for by " + show.Owner(first)
		waiters--
	case holders == 0: // the waiter is at a semaphore's turnstile
		text = "free; the first waiter is about to acquire it"
	default:
		text = show.HeldBy(first, now)
	}
	if first.Detached {
		text += "; its id is " + term.Escape(term.Cut(first.ID, term.MaxCell))
	}
	if holders > 1 {
		text += fmt.Sprintf(" and %d more", holders-1)
	}
	switch {
	case l.Counted && l.Limit > 0:
		text += fmt.Sprintf("; %d of %d permits in use", len(l.Permits), l.Limit)
	case l.Counted:
		text += fmt.Sprintf("; %d of an unknown number of permits in use", len(l.Permits))
	}
	if waiters > 0 {
		text += fmt.Sprintf(", %d more waiting", waiters)
	}
	return text
}
