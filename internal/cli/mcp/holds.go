package mcp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

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

// keep records a Hold. A goroutine of its own follows it until it ends.
func (a *agent) keep(k *claim, h *holdfast.Hold, log func(level, text string)) *agentHold {
	a.mu.Lock()
	a.last++
	mine := &agentHold{id: strconv.Itoa(a.last), name: k.name, path: k.path, below: k.below, lease: k.isLease, hold: h, log: log}
	a.holds = append(a.holds, mine)
	a.mu.Unlock()
	go func() {
		revoked := h.Revoked()
		for {
			select {
			case <-revoked:
				revoked = nil
				a.tell(mine, "warning", fmt.Sprintf("ASKED FOR: somebody asks for %s (id %s). Release it as soon as you can.", term.Escape(mine.name), mine.id))
			case <-h.Context().Done():
				if err := h.Err(); errors.Is(err, holdfast.ErrLost) && !a.over() && a.forget(mine) {
					a.tell(mine, "error", fmt.Sprintf("LOST: %s (id %s) is no longer held, and another may hold it now: %s.", term.Escape(mine.name), mine.id, term.Escape(term.Cut(err.Error(), 300))))
				}
				return
			}
		}
	}()
	return mine
}

func (a *agent) over() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// forget removes a Hold from those of the agent. It reports whether it was there.
func (a *agent) forget(h *agentHold) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, other := range a.holds {
		if other == h {
			a.holds = append(a.holds[:i:i], a.holds[i+1:]...)
			return true
		}
	}
	return false
}

// own says that the agent holds the lock itself.
func (a *agent) own(path string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range a.holds {
		if h.path == path {
			return fmt.Sprintf(" (you, id %s)", h.id)
		}
	}
	return ""
}

func (a *agent) release(_ context.Context, c *toolCall) (*toolResult, error) {
	var args struct {
		ID string `json:"id"`
	}
	if err := c.arguments(&args); err != nil {
		return nil, err
	}
	a.mu.Lock()
	var chosen []*agentHold
	var ids []string
	for _, h := range a.holds {
		ids = append(ids, fmt.Sprintf("%s (%s)", h.id, term.Escape(h.name)))
		if args.ID == "all" || args.ID == h.id {
			chosen = append(chosen, h)
		}
	}
	id, err := strconv.Atoi(args.ID)
	before := err == nil && id >= 1 && id <= a.last
	a.mu.Unlock()
	if len(chosen) == 0 {
		switch {
		case args.ID == "all":
			return answer("You hold nothing.", map[string]any{"released": []string{}}), nil
		case before: // a repeated call
			return answer(fmt.Sprintf("Id %s is not held any more.", args.ID), map[string]any{"released": []string{}}), nil
		case len(ids) == 0:
			return nil, fmt.Errorf("no id %q: you hold nothing", term.Cut(args.ID, 40))
		}
		return nil, fmt.Errorf("no id %q: you hold %s", term.Cut(args.ID, 40), term.Cut(strings.Join(ids, ", "), 500))
	}
	var lines, released []string
	for _, h := range chosen {
		if !a.forget(h) {
			continue // another call has released it
		}
		err := h.hold.Unlock()
		switch {
		case errors.Is(err, holdfast.ErrLost):
			lines = append(lines, fmt.Sprintf("LOST: %s (id %s) was lost before its release: another may have held it.", term.Escape(h.name), h.id))
		case err != nil:
			lines = append(lines, fmt.Sprintf("%s (id %s): %v", term.Escape(h.name), h.id, told(err)))
		default:
			released = append(released, h.id)
			lines = append(lines, fmt.Sprintf("Released %s (id %s).", term.Escape(h.name), h.id))
		}
	}
	return answer(strings.Join(lines, "\n"), map[string]any{"released": append([]string{}, released...)}), nil
}
