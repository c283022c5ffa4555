package mcp

import (
	"context"
	"errors"
	"strings"
	"sync"

	"holdfast/internal/cli/term"
)

// maxNews is how many pieces of news wait for the next answer.
const maxNews = 1000

// The news of the Holds are what the next answer begins with.
type news struct {
	say *term.Sayer

	mu     sync.Mutex // guards the field below
	pieces []string
}

// tell puts news of a Hold before the next answer, and sends it at once, for clients that show what a server logs.
func (n *news) tell(h *agentHold, level, text string) {
	n.mu.Lock()
	if n.pieces = append(n.pieces, text); len(n.pieces) > maxNews {
		n.pieces = n.pieces[1:]
	}
	n.mu.Unlock()
	n.say.Line("%s", text)
	h.log(level, text)
}

// before makes a tool's answers, and its errors, begin with the news. A call that was cancelled has no answer, so it
// leaves the news to the next one.
func (n *news) before(run tool) tool {
	return func(ctx context.Context, c *toolCall) (*toolResult, error) {
		r, err := run(ctx, c)
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.pieces) == 0 || ctx.Err() != nil {
			return r, err
		}
		text := strings.Join(n.pieces, "\n") + "\n"
		n.pieces = nil
		if err != nil {
			return nil, errors.New(text + err.Error())
		}
		undo := r.undo
		r = answer(text+r.text, r.data)
		r.undo = undo
		return r, nil
	}
}
