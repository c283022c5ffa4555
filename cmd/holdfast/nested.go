package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast"
	"holdfast/internal/cli/term"
	"holdfast/zk"
)

// HOLDFAST_HELD lists the locks that the ancestors of a nested holdfast hold. The nested holdfast
// must not wait for them, since they wait for it. Colons separate the elements. An element is the key
// of an exclusive lock. For other locks, the kind and a space come first: "shared KEY", or
// "permits=2/3 KEY" for two permits of three. An older holdfast wrote keys alone, which count as
// exclusive.

// A heldLock is an element of HOLDFAST_HELD.
type heldLock struct {
	key            string // identifies the server and the lock; has no colons
	shared         bool
	permits, limit int // of a semaphore; limit is 0 for other locks
}

func (h heldLock) String() string {
	switch {
	case h.shared:
		return "shared " + h.key
	case h.limit > 0:
		return fmt.Sprintf("permits=%d/%d %s", h.permits, h.limit, h.key)
	}
	return h.key
}

func parseHeld(element string) heldLock {
	kind, key, _ := strings.Cut(element, " ")
	h := heldLock{key: key}
	if kind == "shared" {
		h.shared = true
		return h
	}
	if !strings.HasPrefix(kind, "permits=") {
		return heldLock{key: element} // a key may have spaces
	}
	if n, err := fmt.Sscanf(kind, "permits=%d/%d", &h.permits, &h.limit); n == 2 && err == nil && h.limit > 0 {
		return h
	}
	return heldLock{key: element}
}

// inherited returns the locks that the ancestors of this process hold.
func inherited() []heldLock {
	var all []heldLock
	for element := range strings.SplitSeq(os.Getenv("HOLDFAST_HELD"), ":") {
		all = append(all, parseHeld(element))
	}
	return all
}

// held returns the lock at path as an element of HOLDFAST_HELD. The key has the server, since the same
// name on another server is another lock. With the layout named:NAME, the key has NAME.
func (k *taker) held(path string) heldLock {
	if name := k.kind.layout.Name; strings.HasPrefix(name, "named:") {
		path += "#" + name
	}
	h := heldLock{
		key:    heldKey(k.target.URL, path),
		shared: k.kind.shared || slices.Contains(k.above, path),
	}
	if k.kind.limit > 0 {
		h.permits, h.limit = k.kind.permits, k.kind.limit
	}
	return h
}

func heldKey(url, path string) string {
	return strings.NewReplacer("%", "%25", ":", "%3A").Replace(url + "#" + path)
}

// outerSession returns the session of the holdfast run around this command, or 0. A session of another server
// does not count. It is for holdfast graph, which is to know that the lock of that session stays held while
// this command waits.
func (k *taker) outerSession() int64 {
	outer := inherited()
	session, err := strconv.ParseUint(os.Getenv("HOLDFAST_SESSION"), 0, 64)
	if err != nil || !strings.HasPrefix(outer[len(outer)-1].key, heldKey(k.target.URL, "")) {
		return 0
	}
	return int64(session)
}

// heldText returns the value of HOLDFAST_HELD for the command.
func (k *taker) heldText() string {
	var all []string
	if outer := os.Getenv("HOLDFAST_HELD"); outer != "" {
		all = append(all, outer)
	}
	for _, path := range k.paths() {
		all = append(all, k.held(path).String())
	}
	return strings.Join(all, ":")
}

// deadlock returns an error if an ancestor holds the lock, since the wait would never end. --try does
// not wait, so it finds the lock busy instead. deadlock also notes the locks that an ancestor shares
// with this process: see watchShared.
func (k *taker) deadlock() error {
	if k.try {
		return nil
	}
	outer := inherited()
	for _, path := range k.paths() {
		ours := k.held(path)
		permits, shares, found := 0, true, false
		for _, theirs := range outer {
			if theirs.key != ours.key {
				continue
			}
			found = true
			shares = shares && theirs.shared
			switch {
			case theirs.shared && ours.shared:
			case theirs.limit > 0 && ours.limit > 0:
				permits += theirs.permits
			default:
				return k.wouldDeadlock(path, "the holdfast run around this command holds it")
			}
		}
		if permits > 0 && permits+ours.permits > ours.limit {
			return k.wouldDeadlock(path, fmt.Sprintf("the holdfast run around this command holds %d of the %d permits, so %d more never become free",
				permits, ours.limit, ours.permits))
		}
		if found && shares {
			k.beside = append(k.beside, path)
		}
	}
	return nil
}

func (k *taker) wouldDeadlock(path, why string) error {
	return &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("%s: would deadlock: %s", k.called(path), why), Hint: "acquire the lock once, in the outer holdfast run, or give --try"}
}

// watchShared cancels a wait that would never end: an ancestor shares the lock, and a writer that waits
// for the ancestor is ahead of this process. It returns when ctx ends, or when it has seen this
// process's places without such a writer. A writer that joins later is behind them.
func (k *taker) watchShared(ctx context.Context, c *zk.Client, cancel context.CancelCauseFunc) {
	left := k.beside
	for pause := 50 * time.Millisecond; len(left) > 0; pause = min(2*pause, time.Second) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		session, err := c.Session(ctx)
		if err != nil {
			return
		}
		var unseen []string
		for _, path := range left {
			writer, seen := writerAhead(k.look(ctx, c, path), session.ID())
			if writer != nil {
				cancel(k.wouldDeadlock(path, fmt.Sprintf("the holdfast run around this command shares it, and a writer waits in between: %s",
					ownerOf(*writer))))
				return
			}
			if !seen {
				unseen = append(unseen, path)
			}
		}
		left = unseen
	}
}

// writerAhead looks for the place of session in a queue, and for a waiting writer ahead of it.
func writerAhead(queue []holdfast.Entry, session int64) (writer *holdfast.Entry, seen bool) {
	for i, e := range queue {
		if e.Session == session {
			return writer, true
		}
		if !e.Held && !e.Shared {
			writer = &queue[i]
		}
	}
	return nil, false
}
