package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holdfast/internal/cli/deadlock"
	"holdfast/internal/cli/term"
	"holdfast/internal/waitgraph"
)

func (a *agent) blockers(ctx context.Context, c *toolCall) (*toolResult, error) {
	var args struct {
		Lock string `json:"lock"`
		Path string `json:"path"`
	}
	if err := c.arguments(&args); err != nil {
		return nil, err
	}
	if (args.Lock == "") == (args.Path == "") {
		return nil, errors.New("give lock or path, and not both")
	}
	claim := a.claimLock
	if args.Path != "" {
		claim = a.claimPath
	}
	k, err := claim(args.Lock + args.Path)
	if err != nil {
		return nil, told(err)
	}
	survey, session, err := a.survey(ctx)
	if err != nil {
		return nil, told(err)
	}
	all := survey.Graph()
	for i := range all {
		all[i].Path = all[i].Dirs[0] // of its queue, also in a tree: leases are named by it
	}
	w := waitgraph.Analyze(all).Blocking()
	b := &blockerWalk{Blocking: w, words: deadlock.Words{Graph: w.Graph, LockName: a.nameOf}, session: session, seen: make(map[int]bool)}
	for _, o := range b.holders(k) {
		b.visit(o, fmt.Sprintf("%s holds %s", b.called(o), term.Escape(k.name)))
	}
	if own := a.holds.own(k.path); len(b.lines) == 0 && own != "" {
		b.lines = append(b.lines, term.Escape(k.name)+" is held"+own+".")
	}
	if len(b.lines) == 0 {
		b.lines = append(b.lines, term.Escape(k.name)+" is free.")
	}
	if b.cycle {
		b.lines = append(b.lines, "DEADLOCK if you wait: somebody in this chain waits for you. Release what it waits for first.")
	}
	return answer(strings.Join(b.lines, "\n"), map[string]any{"blockers": append([]string{}, b.owners...), "deadlock": b.cycle}), nil
}

// A blockerWalk follows the waits from the holders of a lock.
type blockerWalk struct {
	*waitgraph.Blocking
	words   deadlock.Words
	session int64 // of the agent
	seen    map[int]bool
	lines   []string
	owners  []string
	cycle   bool
}

// holders returns the owners that keep the agent from a lock: its holders. For a lease, these are the holders of the
// path and of the paths below it, who are readers of the path, and those who hold a path above it.
func (b *blockerWalk) holders(k *claim) (owners []int) {
	for i, l := range b.Locks {
		above := slices.Contains(k.above, l.Path)
		if l.Path != k.path && !above {
			continue
		}
		for j, p := range l.Queue {
			r := waitgraph.Ref{Lock: i, Place: j}
			if o := b.OwnerOf(r); b.Held(r) && !(above && p.Shared) && !slices.Contains(owners, o) && !b.own(o) {
				owners = append(owners, o)
			}
		}
		for j := range l.Permits {
			if o := b.OwnerOf(waitgraph.Ref{Lock: i, Place: j, Permit: true}); !slices.Contains(owners, o) && !b.own(o) {
				owners = append(owners, o)
			}
		}
	}
	return owners
}

// own reports whether an owner is the agent.
func (b *blockerWalk) own(owner int) bool {
	return slices.Contains(b.Owners[owner].Sessions, b.session)
}

func (b *blockerWalk) called(owner int) string {
	if b.own(owner) {
		return "you"
	}
	return b.words.Owner(owner)
}

// maxChain is how many lines the walk makes at most.
const maxChain = 50

// visit describes an owner and those that it waits for.
func (b *blockerWalk) visit(owner int, line string) {
	if len(b.lines) >= maxChain {
		return
	}
	b.lines = append(b.lines, line)
	if b.own(owner) {
		b.cycle = true
		return
	}
	if b.seen[owner] {
		return
	}
	b.seen[owner] = true
	b.owners = append(b.owners, b.words.Owner(owner))
	for _, e := range b.Edges {
		if e.Owner == owner && e.To != owner {
			b.visit(e.To, fmt.Sprintf("%s waits for %s, %s %s", b.called(owner), term.Escape(b.words.LockName(b.Locks[e.Wait.Lock].Path)), b.words.How(e.Step), b.called(e.To)))
		}
	}
}
