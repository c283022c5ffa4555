package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"holdfast"
	"holdfast/zk"
)

func newLs(g *globals) *cobra.Command {
	var format output
	var layout layoutFlag
	cmd := &cobra.Command{
		Use:   "ls [flags] [PREFIX]",
		Short: "List locks, their holders and how many clients wait",
		Long: `ls lists the locks whose names begin with PREFIX, or all locks in the namespace. A free lock is
listed until the server removes its empty node.

HELD-FOR is how long the lock has been held. ≤ marks an upper bound: the time since the holder joined
the queue. A holder records the time of its acquire once it has held the lock for a second. Leaders
(elect) and other programs never record it. The state kept means that a program has released the
lock and keeps it for its next use, until somebody else asks. For about a second, a lock in use again is
still shown as kept. The state detached means that no session owns the lock: it ends with holdfast unlock,
or when it expires.

Exit codes:
  0   the list is complete
  2   wrong command line
  69  no server answered
  77  no permission
  78  wrong configuration`,
		Example: `  holdfast ls
  holdfast ls -o json db/`,
		Args: operands("[prefix]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			prefix := ""
			if len(args) > 0 {
				prefix = args[0]
			}
			if !strings.HasPrefix(prefix, "/") {
				if err := g.checkNamespace(); err != nil {
					return err
				}
				prefix = strings.TrimSuffix(g.namespace, "/") + "/" + prefix
			}
			if err := zk.ValidatePath(parent(prefix)); err != nil {
				return usage("", "prefix: %w", err)
			}
			var found []located
			err := g.ask(cmd.Context(), func(ctx context.Context, c *zk.Client) (err error) {
				found, err = findLocks(ctx, c, prefix, layout.Layout)
				return err
			})
			if err != nil {
				return err
			}
			now := time.Now()
			if format == "json" {
				return document(cmd.OutOrStdout(), g.listDocument(found, now))
			}
			rows := [][]string{{"NAME", "STATE", "HOLDER", "HELD-FOR", "WAITERS", "TOKEN", "WHY"}}
			for _, l := range found {
				row := []string{g.lockName(l.path), "free", "", "", "0", "", ""}
				if len(l.queue) > 0 {
					h := l.queue[0]
					waiters, more := 0, -1
					for _, e := range l.queue {
						if e.Held {
							more++
						} else {
							waiters++
						}
					}
					owner := h.Owner
					if more > 0 {
						owner += fmt.Sprintf(" +%d", more)
					}
					row = []string{
						row[0], stateInTable(h), owner, forState(h, now), strconv.Itoa(waiters), strconv.FormatInt(h.Token, 10), h.Reason,
					}
				}
				rows = append(rows, row)
			}
			return table(cmd.OutOrStdout(), rows)
		},
	}
	format.register(cmd)
	layout.register(cmd)
	return cmd
}

// stateOf returns the state of a lock, by the first place in its queue.
func stateOf(first holdfast.Entry) string {
	switch {
	case !first.Held: // it is about to acquire the lock
		return "free"
	case first.Kept:
		return "kept"
	}
	return "held"
}

// forState returns how long a holder has held the lock, or how long a waiter has waited. It is empty if the lock is
// only kept.
func forState(e holdfast.Entry, now time.Time) string {
	if e.Kept {
		return ""
	}
	if e.Held {
		return heldFor(e, now)
	}
	return age(e.Since, now)
}

type lockList struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Items      []lockDocument `json:"items"`
	AsOf       time.Time      `json:"as_of"`
}

func (g *globals) listDocument(found []located, now time.Time) lockList {
	list := lockList{APIVersion: apiVersion, Kind: "LockList", Items: []lockDocument{}, AsOf: now.UTC().Truncate(time.Millisecond)}
	for _, l := range found {
		list.Items = append(list.Items, describe(g.lockName(l.path), l.path, l.queue, now))
	}
	return list
}

// located is a lock that ls has found.
type located struct {
	path  string
	queue []holdfast.Entry
}

// lsParallel is how many nodes ls reads at a time.
const lsParallel = 32

// findLocks walks the tree for the locks whose paths begin with prefix. A lock is a node with a
// queue, or a node without children: a free lock.
func findLocks(ctx context.Context, c *zk.Client, prefix string, layout holdfast.Layout) ([]located, error) {
	var (
		mu    sync.Mutex // guards found
		found []located
	)
	group, ctx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, lsParallel)
	var visit func(path string, root bool) error
	visit = func(path string, root bool) error {
		slots <- struct{}{}
		children, queue, err := inspect(ctx, c, path, layout)
		<-slots
		if err != nil || children == nil {
			return err
		}
		children = slices.DeleteFunc(children, func(name string) bool { return name == ownDirectory })
		if once, key := onceDirectory(path); once {
			children = slices.DeleteFunc(children, func(name string) bool { return key && (name == "done" || name == "begun") })
			root = true // without callers it is no lock
		}
		// A semaphore keeps its queue one level down, and so do slots.
		var below []string
		for _, dirs := range [][]string{{"leases", "locks"}, {"slots", "slot-queue"}} {
			if slices.Contains(children, dirs[0]) && slices.Contains(children, dirs[1]) {
				below = append(below, dirs...)
			}
		}
		if strings.HasPrefix(path, prefix) && (len(queue) > 0 || len(below) > 0 || len(children) == 0 && !root) {
			mu.Lock()
			found = append(found, located{path, queue})
			mu.Unlock()
		}
		for _, child := range children {
			if slices.ContainsFunc(queue, func(e holdfast.Entry) bool { return e.Name == child || strings.HasPrefix(e.Name, child+"/") }) ||
				slices.Contains(below, child) {
				continue
			}
			next := strings.TrimSuffix(path, "/") + "/" + child
			if next != "/zookeeper" && next != auditPath && (strings.HasPrefix(next, prefix) || strings.HasPrefix(prefix, next+"/")) {
				group.Go(func() error { return visit(next, false) })
			}
		}
		return nil
	}
	group.Go(func() error { return visit(parent(prefix), true) })
	if err := group.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b located) int { return cmp.Compare(a.path, b.path) })
	return found, nil
}

// onceDirectory reports whether path is a directory of a Once, and whether it is that of a key: the
// queue of the key, and the marks of its runs.
func onceDirectory(path string) (once, key bool) {
	is := func(name string) bool {
		digit, ok := strings.CutPrefix(name, "once-")
		return ok && len(digit) == 1 && strings.Contains("0123456789abcdef", digit)
	}
	parts := strings.Split(path, "/")
	n := len(parts)
	key = n > 1 && is(parts[n-2])
	return key || is(parts[n-1]), key
}

// parent returns the node above all paths that begin with prefix.
func parent(prefix string) string {
	if i := strings.LastIndexByte(prefix, '/'); i > 0 {
		return prefix[:i]
	}
	return "/"
}

// inspect returns a node's children and the queue among them. The children are nil if the node does
// not exist.
func inspect(ctx context.Context, c *zk.Client, path string, layout holdfast.Layout) ([]string, []holdfast.Entry, error) {
	var queue []holdfast.Entry
	if path != "/" { // the root is no lock
		var err error
		if queue, err = holdfast.List(ctx, c, path, holdfast.WithLayout(layout)); err != nil {
			return nil, nil, err
		}
	}
	children, _, err := c.Children(ctx, path)
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case children == nil:
		children = []string{}
	}
	return children, queue, nil
}
