package mcp

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"holdfast"
	"holdfast/internal/cli/term"
)

func (a *agent) release(_ context.Context, c *toolCall) (*toolResult, error) {
	var args struct {
		ID string `json:"id"`
	}
	if err := c.arguments(&args); err != nil {
		return nil, err
	}
	chosen, ids, before := a.holds.choose(args.ID)
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
		if !a.holds.forget(h) {
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
