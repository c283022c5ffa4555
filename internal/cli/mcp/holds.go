package mcp

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"holdfast"
	"holdfast/internal/cli/term"
)

// An agentHold is a lock or a lease that the agent holds.
type agentHold struct {
	id    string
	name  string // as the agent gave it
	path  string // of the queue
	below string // of a lease, its path in the tree; otherwise ""
	lease bool
	hold  *holdfast.Hold
	log   func(level, text string)
}

// The holds of an agent.
type holds struct {
	news  *news
	ended chan struct{} // is closed when the agent is gone

	mu   sync.Mutex // guards the fields below
	all  []*agentHold
	last int // the newest id
}

func newHolds(n *news) *holds { return &holds{news: n, ended: make(chan struct{})} }

// end lets nobody be told of a loss any more.
func (o *holds) end() { close(o.ended) }

// keep records a Hold. A goroutine of its own follows it until it ends.
func (o *holds) keep(k *claim, h *holdfast.Hold, log func(level, text string)) *agentHold {
	o.mu.Lock()
	o.last++
	mine := &agentHold{id: strconv.Itoa(o.last), name: k.name, path: k.path, below: k.below, lease: k.isLease, hold: h, log: log}
	o.all = append(o.all, mine)
	o.mu.Unlock()
	go func() {
		revoked := h.Revoked()
		for {
			select {
			case <-revoked:
				revoked = nil
				o.news.tell(mine, "warning", fmt.Sprintf("ASKED FOR: somebody asks for %s (id %s). Release it as soon as you can.", term.Escape(mine.name), mine.id))
			case <-h.Context().Done():
				if err := h.Err(); errors.Is(err, holdfast.ErrLost) && !o.over() && o.forget(mine) {
					o.news.tell(mine, "error", fmt.Sprintf("LOST: %s (id %s) is no longer held, and another may hold it now: %s.", term.Escape(mine.name), mine.id, term.Escape(term.Cut(err.Error(), 300))))
				}
				return
			}
		}
	}()
	return mine
}

func (o *holds) over() bool {
	select {
	case <-o.ended:
		return true
	default:
		return false
	}
}

// forget removes a Hold. It reports whether it was there.
func (o *holds) forget(h *agentHold) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, other := range o.all {
		if other == h {
			o.all = append(o.all[:i:i], o.all[i+1:]...)
			return true
		}
	}
	return false
}

// own says that the agent holds the lock itself.
func (o *holds) own(path string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.all {
		if h.path == path {
			return fmt.Sprintf(" (you, id %s)", h.id)
		}
	}
	return ""
}

// conflicting returns what the agent holds that its own call would wait for. A shared lock waits for itself, too, if
// somebody else has asked for the lock in between, so it counts.
func (o *holds) conflicting(k *claim) *agentHold {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.all {
		if h.path == k.path && h.lease == k.isLease ||
			h.lease && k.isLease && (within(k.below, h.below) || within(h.below, k.below)) {
			return h
		}
	}
	return nil
}

// choose returns the Holds with an id, or all of them. ids are those that the agent has, and before is whether the id has
// been given to a Hold.
func (o *holds) choose(id string) (chosen []*agentHold, ids []string, before bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.all {
		ids = append(ids, fmt.Sprintf("%s (%s)", h.id, term.Escape(h.name)))
		if id == "all" || id == h.id {
			chosen = append(chosen, h)
		}
	}
	n, err := strconv.Atoi(id)
	return chosen, ids, err == nil && n >= 1 && n <= o.last
}

// withToken returns the id and the name of the Hold with a token, or "".
func (o *holds) withToken(token int64) (id, name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range o.all {
		if slices.ContainsFunc(h.hold.Tokens(), func(t holdfast.LockToken) bool { return t.Token == token }) {
			return h.id, h.name
		}
	}
	return "", ""
}
