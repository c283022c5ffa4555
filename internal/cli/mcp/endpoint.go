package mcp

import (
	"context"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holdfast/internal/cli/version"
)

// An endpoint is the server of the protocol, for one client. It knows no locks.
type endpoint struct {
	server *sdk.Server
	stream *stream
	news   *news
}

// newEndpoint returns an endpoint without tools.
func newEndpoint(in io.Reader, out io.Writer, n *news) *endpoint {
	server := sdk.NewServer(&sdk.Implementation{Name: "holdfast", Title: "holdfast: locks", Version: version.Info().Version}, &sdk.ServerOptions{
		Instructions: instructions,
		//lint:ignore SA1019 clients of the versions before 2026-07-28 show what is logged
		Capabilities: &sdk.ServerCapabilities{Logging: &sdk.LoggingCapabilities{}, Tools: &sdk.ToolCapabilities{}},
	})
	return &endpoint{server, newStream(in, out), n}
}

// offer gives a tool to the server. The SDK would check the arguments by the schema, and describe a fault in terms of JSON
// schemas. The tool does it in words for the model.
func (e *endpoint) offer(description *sdk.Tool, run tool) {
	run = e.news.before(run)
	e.server.AddTool(description, func(ctx context.Context, request *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		answer := new(sdk.CallToolResult)
		r, err := run(ctx, &toolCall{CallToolRequest: request})
		if err != nil {
			answer.SetError(err)
			return answer, nil
		}
		if r.undo != nil {
			e.stream.requests.undoable(request.Extra.Header, r.undo)
		}
		answer.Content, answer.StructuredContent = []sdk.Content{&sdk.TextContent{Text: r.text}}, r.data
		return answer, nil
	})
}

// converse answers the client until its stream ends, and returns when all calls have returned. The error is that of the
// stream, unless it has ended; it is nil if no more answers can be written: then the client has gone.
func (e *endpoint) converse(ctx context.Context) error {
	// The client gets everything that is logged, until it asks for another level.
	session, err := e.server.Connect(ctx, e.stream, &sdk.ServerSessionOptions{State: &sdk.ServerSessionState{LogLevel: "debug"}})
	if err != nil {
		return err
	}
	_ = session.Wait() // the error of an answer, too
	return e.stream.failed()
}
