package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdfast/internal/cli/term"
)

// A tool is a function for the model. Its error is told to the model, which can do better in the next call. ctx ends when
// the client cancels the call or has gone. Several calls can run at a time.
type tool func(ctx context.Context, c *toolCall) (*toolResult, error)

// A toolCall is one call of a tool.
type toolCall struct {
	*sdk.CallToolRequest
	told int // pieces of progress
}

// arguments decodes the arguments into the struct that v points to. A name that it does not have is an error.
func (c *toolCall) arguments(v any) error {
	if len(c.Params.Arguments) == 0 {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(c.Params.Arguments)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("arguments: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// client returns the name and the version of the client.
func (c *toolCall) client() string {
	p := c.Session.InitializeParams()
	if p == nil || p.ClientInfo == nil {
		return ""
	}
	return strings.TrimSpace(p.ClientInfo.Name + " " + p.ClientInfo.Version)
}

// progress tells the client how a long call gets on, if it has asked for that.
func (c *toolCall) progress(ctx context.Context, text string) {
	token := c.Params.GetProgressToken()
	if token == nil {
		return
	}
	c.told++ // the protocol wants a number that grows
	_ = c.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(c.told), Message: text})
}

// logger returns a function that tells the client, after the call, what is the answer to no call. Since 2026-07-28, the
// request says of which level.
func (c *toolCall) logger(ctx context.Context) func(level, text string) {
	ctx = context.WithoutCancel(ctx)
	return func(level, text string) {
		//lint:ignore SA1019 clients of the versions before 2026-07-28 show it
		_ = c.Session.Log(ctx, &sdk.LoggingMessageParams{Level: sdk.LoggingLevel(level), Logger: "holdfast", Data: text})
	}
}

// A toolResult is what a tool returns.
type toolResult struct {
	text string         // for the model
	data map[string]any // the same, for programs

	// undo is called if the client has cancelled the call: it gets no answer, so it does not know what the call did.
	undo func()
}

// answer makes a result. Some clients show the model only the data, so these have the text, too.
func answer(text string, data map[string]any) *toolResult {
	data["text"] = text
	return &toolResult{text: text, data: data}
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
