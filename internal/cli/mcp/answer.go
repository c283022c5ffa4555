package mcp

import (
	"context"
	"errors"
	"strings"

	"holdfast/internal/cli/term"
)

// maxNews is how many pieces of news wait for the next answer.
const maxNews = 1000

// tell puts news of a Hold before the next answer, and sends it at once, for clients that show what a server logs.
func (a *agent) tell(h *agentHold, level, text string) {
	a.mu.Lock()
	if a.news = append(a.news, text); len(a.news) > maxNews {
		a.news = a.news[1:]
	}
	a.mu.Unlock()
	a.say.Line("%s", text)
	h.log(level, text)
}

// answer makes a result. Some clients show the model only the data, so these have the text, too.
func answer(text string, data map[string]any) *toolResult {
	data["text"] = text
	return &toolResult{text: text, data: data}
}

// withNews makes a tool's answers, and its errors, begin with the news. A call that was cancelled has no answer, so it
// leaves the news to the next one.
func (a *agent) withNews(run tool) tool {
	return func(ctx context.Context, c *toolCall) (*toolResult, error) {
		r, err := run(ctx, c)
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.news) == 0 || ctx.Err() != nil {
			return r, err
		}
		news := strings.Join(a.news, "\n") + "\n"
		a.news = nil
		if err != nil {
			return nil, errors.New(news + err.Error())
		}
		undo := r.undo
		r = answer(news+r.text, r.data)
		r.undo = undo
		return r, nil
	}
}

// told is an error with its hint, for the model.
func told(err error) error {
	f := term.Explain(err)
	text := strings.TrimPrefix(f.Error(), "holdfast: ")
	if f.Hint != "" {
		text += " (" + f.Hint + ")"
	}
	return errors.New(term.Escape(term.Cut(text, term.MaxMessage)))
}
