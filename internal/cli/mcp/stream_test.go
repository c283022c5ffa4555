package mcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A conversation is that of a client with tools that know no locks.
type conversation struct {
	t       *testing.T
	in      *io.PipeWriter
	answers io.Closer // of out
	out     *bufio.Reader
	ended   chan error
}

// listening returns an endpoint with one tool.
func listening(in io.Reader, out io.Writer, name string, run tool) *endpoint {
	e := newEndpoint(in, out, new(news))
	e.offer(&sdk.Tool{Name: name, InputSchema: object(map[string]*jsonschema.Schema{"text": {Type: "string"}})}, run)
	return e
}

func converse(t *testing.T, name string, run tool) *conversation {
	t.Helper()
	inRead, in := io.Pipe()
	out, outWrite := io.Pipe()
	c := &conversation{t, in, out, bufio.NewReader(out), make(chan error, 1)}
	go func() {
		err := listening(inRead, outWrite, name, run).converse(t.Context())
		outWrite.Close()
		c.ended <- err
	}()
	t.Cleanup(func() { in.Close(); out.Close() })
	c.say(initialize)
	c.hear()
	return c
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"probe","version":"1"}}}`

func (c *conversation) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hear returns the next message.
func (c *conversation) hear() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatal(err)
	}
	if !json.Valid([]byte(line)) {
		c.t.Fatalf("no JSON: %s", line)
	}
	return strings.TrimSpace(line)
}

// call calls the tool.
func (c *conversation) call(id, name string) {
	c.t.Helper()
	c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + name + `"}}`)
}

// cancel cancels a request.
func (c *conversation) cancel(id string) {
	c.t.Helper()
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
}

// echo returns its argument and the client.
func echo(ctx context.Context, c *toolCall) (*toolResult, error) {
	var a struct{ Text string }
	if err := c.arguments(&a); err != nil {
		return nil, err
	}
	c.progress(ctx, "half")
	return answer(a.Text+" from "+c.client(), map[string]any{}), nil
}

// A line that is no message is answered, and the session goes on.
func TestLinesAreAnswered(t *testing.T) {
	t.Parallel()
	long := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", maxLine) + `"}}`
	failure := func(id string, code int, text string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"%s`, id, code, text)
	}
	for _, tt := range []struct{ name, say, want string }{
		{"ping", `{"jsonrpc":"2.0","id":"a","method":"ping"}`, `{"jsonrpc":"2.0","id":"a","result":{}}`},
		{"an empty line before", "\n \n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"call", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hi from probe 1"}],"structuredContent":{"text":"hi from probe 1"}}}`},
		{"an argument that is not known", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"txt":"hi"}}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"arguments: unknown field \"txt\""}],"isError":true}}`},
		{"no such tool", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ech"}}`, failure("3", -32602, `unknown tool \"ech\"`)},
		{"no such method", `{"jsonrpc":"2.0","id":4,"method":"nothing"}`, failure("4", -32601, `method not found: \"nothing\"`)},
		{"no JSON", `{`, failure("null", -32700, "the line is no JSON")},
		{"no version", `{"id":5,"method":"ping"}`, failure("null", -32600, "invalid message version tag")},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, failure("null", -32600, "parse error")},
		{"an id that is too long", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"ping"}`, failure("null", -32600, "the id is longer than 256 bytes")},
		{"a number", `5`, failure("null", -32600, "")},
		{"null", `null`, failure("null", -32600, "")},
		{"too long", long, failure("null", -32600, "the message is longer than 1048576 bytes")},
		{"an empty batch", `[]`, failure("null", -32600, "the batch is empty")},
		{"a batch", `[7,{"jsonrpc":"2.0","id":6,"method":"ping"}]`, failure("null", -32600, "")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := converse(t, "echo", echo)
			c.say(tt.say)
			if got := c.hear(); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if tt.name == "a batch" {
				c.hear()
			}
			c.say(`{"jsonrpc":"2.0","id":"last","method":"ping"}`)
			if got := c.hear(); got != `{"jsonrpc":"2.0","id":"last","result":{}}` {
				t.Errorf("then %s", got)
			}
		})
	}
}

func TestProgressIsSentToThoseWhoAsk(t *testing.T) {
	t.Parallel()
	c := converse(t, "echo", echo)
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"progressToken":"p"}}}`)
	if got, want := c.hear(), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","message":"half","progress":1}}`; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	c.hear()
}

// blocking returns a tool that waits for its context, or for done.
func blocking(done chan struct{}, undone *atomic.Int32) tool {
	return func(ctx context.Context, _ *toolCall) (*toolResult, error) {
		select {
		case <-ctx.Done():
		case <-done:
		}
		r := answer("done", map[string]any{})
		r.undo = func() { undone.Add(1) }
		return r, nil
	}
}

// A client that has cancelled a call gets no answer, and what the call did is undone. Other calls go on.
func TestACancelledCallIsUndone(t *testing.T) {
	t.Parallel()
	var undone atomic.Int32
	done := make(chan struct{})
	c := converse(t, "wait", blocking(done, &undone))
	c.call(`"2"`, "wait")
	c.call("2", "wait")
	c.call(`"2"`, "wait")
	if got := c.hear(); !strings.Contains(got, `"id":"2","error"`) || !strings.Contains(got, "a call with this id is running") {
		t.Errorf("the same id twice: %s", got)
	}
	c.cancel(`"2"`)
	c.cancel("99")
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`)
	for until := time.Now().Add(10 * time.Second); undone.Load() == 0 && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	c.say(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	if got := c.hear(); !strings.Contains(got, `"id":3`) {
		t.Errorf("%s; want the answer to the ping", got)
	}
	close(done)
	if got := c.hear(); !strings.Contains(got, `"id":2`) {
		t.Errorf("%s; want the answer to the call that was not cancelled", got)
	}
	c.in.Close()
	if err := <-c.ended; err != nil || undone.Load() != 1 {
		t.Errorf("%v, undone %d times; want 1", err, undone.Load())
	}
}

// A cancellation that crosses the answer comes when the call has ended. The client ignores the answer, so the call is undone.
func TestACallThatIsCancelledTooLateIsUndone(t *testing.T) {
	t.Parallel()
	undone := make(chan string, 10)
	c := converse(t, "take", func(_ context.Context, c *toolCall) (*toolResult, error) {
		what := string(c.Params.Arguments)
		r := answer(what, map[string]any{})
		r.undo = func() { undone <- what }
		return r, nil
	})
	for i, what := range []string{"first", "second", "third"} {
		id := min(i, 1) // the second and the third have one id
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"take","arguments":%q}}`, id, what))
		c.hear()
	}
	for range 2 { // once
		c.cancel("1")
	}
	if got := <-undone; got != `"third"` {
		t.Errorf("%s is undone; want the latest call with this id", got)
	}
	c.cancel("0")
	if got := <-undone; got != `"first"` {
		t.Errorf("%s is undone", got)
	}
	c.in.Close()
	if err := <-c.ended; err != nil || len(undone) > 0 {
		t.Errorf("%v, %d more undone", err, len(undone))
	}
}

func TestCallsAtATimeAreBounded(t *testing.T) {
	t.Parallel()
	c := converse(t, "wait", blocking(make(chan struct{}), new(atomic.Int32)))
	for i := range maxCalls + 1 {
		c.call(fmt.Sprint(i), "wait")
	}
	if got := c.hear(); !strings.Contains(got, `"id":64,"error"`) || !strings.Contains(got, "64 calls are running") {
		t.Error(got)
	}
}

// A client that reads no answers cannot make more of them than maxCalls.
func TestRequestsWithoutAnAnswerAreBounded(t *testing.T) {
	t.Parallel()
	c := converse(t, "echo", echo)
	var said atomic.Int32
	go func() {
		for {
			if _, err := io.WriteString(c.in, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", said.Load())); err != nil {
				return
			}
			said.Add(1)
		}
	}()
	for before := int32(-1); before != said.Load(); time.Sleep(200 * time.Millisecond) {
		before = said.Load()
	}
	if got := said.Load(); got > 2*maxCalls {
		t.Errorf("%d requests were read", got)
	}
}

// When the client has gone, its calls are cancelled, and the conversation ends when they have returned.
func TestAConversationEndsWithItsClient(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		end  error
		want error
	}{{"the stream ends", io.EOF, nil}, {"it fails", errors.ErrUnsupported, errors.ErrUnsupported}} {
		t.Run(tt.name, func(t *testing.T) {
			c := converse(t, "wait", blocking(make(chan struct{}), new(atomic.Int32)))
			c.call("1", "wait")
			c.in.CloseWithError(tt.end)
			go io.Copy(io.Discard, c.out)
			c.wantEnd(tt.want)
		})
	}
}

func (c *conversation) wantEnd(want error) {
	c.t.Helper()
	select {
	case err := <-c.ended:
		if !errors.Is(err, want) {
			c.t.Errorf("%v; want %v", err, want)
		}
	case <-time.After(10 * time.Second):
		c.t.Error("the conversation goes on")
	}
}

// A client that reads no more is gone, though its other stream is open.
func TestAConversationEndsWhenItCannotAnswer(t *testing.T) {
	t.Parallel()
	c := converse(t, "echo", echo)
	c.answers.Close()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	c.wantEnd(nil)
}

// Before the end, everything is answered but calls of tools, which wait.
func TestWhatWasAskedBeforeTheEndIsAnswered(t *testing.T) {
	t.Parallel()
	for range 100 {
		var out strings.Builder
		in := initialize + "\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"ping"}`
		if err := listening(strings.NewReader(in), &out, "echo", echo).converse(t.Context()); err != nil || strings.Count(out.String(), `"result"`) != 3 {
			t.Fatalf("%v, %s", err, &out)
		}
	}
}

// Whatever a client sends, the agent answers with JSON, and ends with its client.
func FuzzConverse(f *testing.F) {
	f.Add([]byte(initialize + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`))
	f.Add([]byte(`[{"jsonrpc":"2.0","id":"x","method":"tools/list"}]`))
	f.Add([]byte("{}\n[]\nnull\n5\n\"\"\n"))
	f.Add([]byte(initialize + "\n" + `[1,{"jsonrpc":"2.0","id":2,"method":"prompts/list"},{"id":3,"method":{}}]`))
	f.Add([]byte(initialize + "\n" + `{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{}}`))
	f.Add([]byte(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	f.Add([]byte(`{"id":1,"x":"` + strings.Repeat("x", maxLine) + `"}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out strings.Builder
		if err := listening(strings.NewReader(string(in)), &out, "echo", echo).converse(t.Context()); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if !json.Valid([]byte(line)) || !strings.HasPrefix(line, `{"jsonrpc":"2.0"`) {
				t.Fatalf("answer %q", line)
			}
		}
	})
}
