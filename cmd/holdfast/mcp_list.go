package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/mcp"
	"holdfast/layout"
	"holdfast/zk"
)

// maxListed is how many locks a list for a model has, and maxPlaces how many of their holders and waiters. The first
// place of each lock is there in any case.
const (
	maxListed = 100
	maxPlaces = 1000
)

func (a *agent) list(ctx context.Context, c *mcp.Call) (*mcp.Result, error) {
	var args struct {
		Prefix string `json:"prefix"`
	}
	if err := c.Arguments(&args); err != nil {
		return nil, err
	}
	prefix, err := conn.LockPrefix(a.Flags, []string{args.Prefix})
	if err != nil {
		return nil, told(err)
	}
	// The names of leases are escaped below the tree's node, so a prefix of them is looked for in all of the tree.
	read := prefix
	tree, err := a.LockPath(a.tree)
	if err != nil {
		return nil, told(err)
	}
	if strings.HasPrefix(prefix, tree+"/") {
		read = tree + "/"
	}
	link, err := a.connected(ctx)
	if err != nil {
		return nil, told(err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.Timeout, conn.ErrUnreachable)
	defer cancel()
	found, err := findLocks(ctx, link.Client, read, layout.Curator)
	if errors.Is(err, zk.ErrNoNode) {
		found, err = nil, nil // nobody has used a lock yet
	}
	if err != nil {
		return nil, told(err)
	}
	now := time.Now()
	var lines []string
	docs := []lockDocument{}
	more, room, left := 0, maxPlaces, 0
	for _, l := range leasesOf(found, tree) {
		name := a.nameOf(l.path, tree)
		if len(l.queue) == 0 || !strings.HasPrefix(l.path, read) || !strings.HasPrefix(name, args.Prefix) && !strings.HasPrefix(l.path, prefix) {
			continue
		}
		if len(docs) == maxListed {
			more++
			continue
		}
		shown := l.queue[:max(min(len(l.queue), room), 1)]
		room -= len(shown)
		left += len(l.queue) - len(shown)
		docs = append(docs, describe(name, l.path, shown, now))
		lines = append(lines, fmt.Sprintf("%s: %s%s", term.Escape(name), l.listed(now, strings.HasPrefix(l.path, tree+"/")), a.own(l.path)))
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

// leasesOf leaves in the queues of a tree what its users asked for. A lease is a place as a writer in the queue of its
// own path, and places as a reader in those of the paths above it. It is held when all of its places are.
func leasesOf(found []located, tree string) []located {
	waiting := make(map[int64][]string) // the queues in which a session waits as a reader
	for _, l := range found {
		if !strings.HasPrefix(l.path, tree+"/") {
			continue
		}
		for _, e := range l.queue {
			if e.Shared && !e.Held {
				waiting[e.Session] = append(waiting[e.Session], l.path)
			}
		}
	}
	all := slices.Clone(found)
	for i := range all {
		l := &all[i]
		if !strings.HasPrefix(l.path, tree+"/") {
			continue
		}
		var queue []holdfast.Entry
		for _, e := range l.queue {
			if e.Shared {
				continue
			}
			if slices.ContainsFunc(waiting[e.Session], func(above string) bool { return isAbove(above, l.path, tree) }) {
				e.Held = false
			}
			queue = append(queue, e)
		}
		l.queue = queue
	}
	return all
}

// listed is what list says of a lock.
func (l *located) listed(now time.Time, lease bool) string {
	waiters := len(l.queue) - l.holders()
	text := l.summary(now)
	if lease && l.holders() == 0 {
		// Its user waits for a holder above it or below it.
		text = "not held; waited for by " + ownerOf(l.queue[0])
		waiters--
	}
	if waiters > 0 {
		text += fmt.Sprintf(", %d more waiting", waiters)
	}
	return text
}
