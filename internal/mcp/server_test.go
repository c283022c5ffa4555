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
)

// conversation is a client of a server under test.
type conversation struct {
	t       *testing.T
	in      *io.PipeWriter
	answers io.Closer // of out
	out     *bufio.Reader
	ended   chan error
}

func converse(t *testing.T, s *Server) *conversation {
	t.Helper()
	inRead, in := io.Pipe()
	out, outWrite := io.Pipe()
	c := &conversation{t, in, out, bufio.NewReader(out), make(chan error, 1)}
	go func() {
		err := s.Serve(t.Context(), inRead, outWrite)
		outWrite.Close()
		c.ended <- err
	}()
	t.Cleanup(func() { in.Close(); out.Close() })
	return c
}

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

func (c *conversation) begin() { c.t.Helper(); c.beginWith("2025-06-18") }

func (c *conversation) beginWith(version string) {
	c.t.Helper()
	c.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"` + version + `","clientInfo":{"name":"probe","version":"1"}}}`)
	c.hear()
	c.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// echo is a tool that returns its argument and the client.
var echo = Tool{
	Name: "echo", Input: Object(map[string]Property{"text": {Type: "string"}}, "text"),
	Call: func(_ context.Context, c *Call) (*Result, error) {
		var a struct{ Text string }
		if err := c.Arguments(&a); err != nil {
			return nil, err
		}
		c.Progress("half")
		return &Result{Text: a.Text + " from " + c.Client, Data: map[string]string{"text": a.Text}}, nil
	},
}

func TestMessagesAreAnswered(t *testing.T) {
	long := `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", maxLine) + `"}}`
	x := strings.Repeat("x", maxLine)
	for _, tt := range []struct{ name, say, want string }{
		{"ping", `{"jsonrpc":"2.0","id":"a","method":"ping"}`, `{"jsonrpc":"2.0","id":"a","result":{}}`},
		{"an empty line before", "\n \n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`},
		{"call", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hi from probe 1"}],"structuredContent":{"text":"hi"}}}`},
		{"an argument that is not known", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"txt":"hi"}}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"arguments: unknown field \"txt\""}],"isError":true}}`},
		{"an argument of another type", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":1}}}`,
			`{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"arguments: cannot unmarshal number into Go struct field .Text of type string"}],"isError":true}}`},
		{"no such tool", `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ech"}}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32602,"message":"no tool \"ech\""}}`},
		{"no such method", `{"jsonrpc":"2.0","id":4,"method":"resources/read"}`, `{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"no method \"resources/read\""}}`},
		{"resources", `{"jsonrpc":"2.0","id":4,"method":"resources/list"}`, `{"jsonrpc":"2.0","id":4,"result":{"resources":[]}}`},
		{"templates", `{"jsonrpc":"2.0","id":4,"method":"resources/templates/list","params":{}}`, `{"jsonrpc":"2.0","id":4,"result":{"resourceTemplates":[]}}`},
		{"prompts", `{"jsonrpc":"2.0","id":4,"method":"prompts/list"}`, `{"jsonrpc":"2.0","id":4,"result":{"prompts":[]}}`},
		{"no JSON", `{`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"unexpected end of JSON input"}}`},
		{"no version", `{"id":5,"method":"ping"}`, `{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"the message has no \"jsonrpc\": \"2.0\""}}`},
		{"an id that is an object", `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the id of a request is a string or a number"}}`},
		{"an id that is too long", `{"jsonrpc":"2.0","id":"` + x[:300] + `","method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the id is longer than 256 bytes"}}`},
		{"an id that is null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the id of a request is a string or a number"}}`},
		{"a number", `5`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is no JSON object"}}`},
		{"a text", `"ping"`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is no JSON object"}}`},
		{"null", `null`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is no JSON object"}}`},
		{"a method that is a number", `{"jsonrpc":"2.0","id":11,"method":5}`, `{"jsonrpc":"2.0","id":11,"error":{"code":-32600,"message":"a member of the message has the wrong type: method"}}`},
		{"a version that is a number", `{"jsonrpc":2.0,"id":"x","method":"ping"}`, `{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"message":"a member of the message has the wrong type: jsonrpc"}}`},
		{"not UTF-8 in a key", "{\"\xff\":1}", `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message has no \"jsonrpc\": \"2.0\""}}`},
		{"too long", long, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"the message is longer than 1048576 bytes"}}`},
		{"too long, the id behind", `{"jsonrpc":"2.0","method":"tools/call","params":{"id":7,"x":"` + x + `\"},{\"id\":8,"}, "id" : "a\",b}" }`, `{"jsonrpc":"2.0","id":"a\",b}","error":{"code":-32600,"message":"the message is longer than 1048576 bytes"}}`},
		{"too long, no id", `{"jsonrpc":"2.0","method":"tools/call","params":{"id":7,"x":"` + x + `"}}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is longer than 1048576 bytes"}}`},
		{"too long, a bad id", `{"id":[1],"x":"` + x + `"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is longer than 1048576 bytes"}}`},
		{"too long, an id that is too long", `{"id":"` + x + `"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is longer than 1048576 bytes"}}`},
		{"too long, a batch", `[{"id":1,"x":"` + x + `"}]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is longer than 1048576 bytes"}}`},
		{"too long, no JSON", x + x, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is longer than 1048576 bytes"}}`},
		{"a batch", `[{"jsonrpc":"2.0","id":6,"method":"ping"}]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this version of the protocol has no batches"}}`},
		{"an answer to nothing", `{"jsonrpc":"2.0","id":7,"result":{}}` + "\n" + `{"jsonrpc":"2.0","id":8,"method":"ping"}`, `{"jsonrpc":"2.0","id":8,"result":{}}`},
		{"level", `{"jsonrpc":"2.0","id":9,"method":"logging/setLevel","params":{"level":"debug"}}`, `{"jsonrpc":"2.0","id":9,"result":{}}`},
		{"no such level", `{"jsonrpc":"2.0","id":9,"method":"logging/setLevel","params":{"level":"loud"}}`, `{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"no level \"loud\": want debug, info, notice, warning, error, critical, alert or emergency"}}`},
		{"no level", `{"jsonrpc":"2.0","id":9,"method":"logging/setLevel"}`, `{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"no level \"\": want debug, info, notice, warning, error, critical, alert or emergency"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := converse(t, &Server{Tools: []Tool{echo}})
			c.begin()
			c.say(tt.say)
			if got := c.hear(); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Only the version 2025-03-26 has batches. Each request of a batch is answered by itself.
func TestBatchesBelongToOneVersion(t *testing.T) {
	const none = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"this version of the protocol has no batches"}}`
	for _, version := range append([]string{""}, versions...) {
		for _, tt := range []struct {
			say  string
			want []string
		}{
			{`[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":6,"method":"ping"},{"jsonrpc":"2.0","id":7,"method":"ping"}]`,
				[]string{`{"jsonrpc":"2.0","id":6,"result":{}}`, `{"jsonrpc":"2.0","id":7,"result":{}}`}},
			{`[]`, []string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the batch is empty"}}`}},
			{`[1,{"jsonrpc":"2.0","id":8,"method":7},{"jsonrpc":"2.0","id":9,"method":"ping"}]`, []string{
				`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the message is no JSON object"}}`,
				`{"jsonrpc":"2.0","id":8,"error":{"code":-32600,"message":"a member of the message has the wrong type: method"}}`, `{"jsonrpc":"2.0","id":9,"result":{}}`}},
			{`[{]`, []string{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"invalid character ']' looking for beginning of object key string"}}`}},
		} {
			c := converse(t, &Server{})
			if version != "" {
				c.beginWith(version)
			}
			c.say(tt.say)
			if version != "2025-03-26" && tt.say != `[{]` {
				tt.want = []string{none}
			}
			for _, want := range tt.want {
				if got := c.hear(); got != want {
					t.Errorf("%q: %s\ngot  %s\nwant %s", version, tt.say, got, want)
				}
			}
		}
	}
}

// The client gets the messages of the level that it has asked for, and of worse ones. At first it gets all.
func TestLogHasTheLevelOfTheClient(t *testing.T) {
	s := &Server{Name: "n"}
	c := converse(t, s)
	c.begin()
	heard := func(level string) bool {
		go func() {
			s.Log(level, "lost")
			c.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		}()
		if !strings.Contains(c.hear(), `"level"`) {
			return false
		}
		c.hear()
		return true
	}
	if !heard("debug") || !heard("error") {
		t.Error("a message is missing at first")
	}
	c.say(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"warning"}}`)
	c.hear()
	for level, want := range map[string]bool{"debug": false, "notice": false, "warning": true, "error": true, "emergency": true} {
		if got := heard(level); got != want {
			t.Errorf("%s: %v; want %v", level, got, want)
		}
	}
}

func TestInitializeAgreesOnAVersion(t *testing.T) {
	for _, tt := range []struct{ asked, want string }{
		{"2024-11-05", "2024-11-05"}, {"2025-03-26", "2025-03-26"}, {"2025-06-18", "2025-06-18"}, {"2025-11-25", "2025-11-25"}, {"2099-01-01", "2025-11-25"},
	} {
		c := converse(t, &Server{Name: "n", Title: "t", Version: "v", Instructions: "i"})
		c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if got := c.hear(); !strings.Contains(got, "the session begins with initialize") {
			t.Errorf("tools/list before initialize: %s", got)
		}
		c.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + tt.asked + `"}}`)
		want := `{"jsonrpc":"2.0","id":1,"result":{"capabilities":{"logging":{},"tools":{}},"instructions":"i","protocolVersion":"` + tt.want + `","serverInfo":{"name":"n","title":"t","version":"v"}}}`
		if got := c.hear(); got != want {
			t.Errorf("%s: %s; want %s", tt.asked, got, want)
		}
	}
}

func TestProgressIsSentToThoseWhoAsk(t *testing.T) {
	c := converse(t, &Server{Tools: []Tool{echo}})
	c.begin()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},"_meta":{"progressToken":"p"}}}`)
	if got, want := c.hear(), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"half","progress":1,"progressToken":"p"}}`; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	c.hear()
}

// blocking is a tool that waits for its context, or for done.
func blocking(done chan struct{}, undone *atomic.Int32) Tool {
	return Tool{Name: "wait", Call: func(ctx context.Context, _ *Call) (*Result, error) {
		select {
		case <-ctx.Done():
		case <-done:
		}
		return &Result{Text: "done", Undo: func() { undone.Add(1) }}, nil
	}}
}

// A client that has cancelled a call gets no answer, and what the call did is undone. Other calls go on.
func TestACancelledCallIsUndone(t *testing.T) {
	var undone atomic.Int32
	done := make(chan struct{})
	c := converse(t, &Server{Tools: []Tool{blocking(done, &undone), echo}})
	c.begin()
	for _, id := range []string{`"a"`, "2"} {
		c.say(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"wait"}}`)
	}
	c.say(`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"wait"}}`)
	if got := c.hear(); !strings.Contains(got, "a call with this id is running") {
		t.Errorf("the same id twice: %s", got)
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}`)
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`)
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}`)
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
	undone := make(chan string, 10)
	tool := Tool{Name: "take", Call: func(_ context.Context, c *Call) (*Result, error) {
		what := string(c.arguments)
		return &Result{Text: what, Undo: func() { undone <- what }}, nil
	}}
	c := converse(t, &Server{Tools: []Tool{tool}})
	c.begin()
	for i, what := range []string{"first", "second", "third"} {
		id := min(i, 1) // the second and the third have one id
		c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"take","arguments":%q}}`, id, what))
		c.hear()
	}
	for range 2 { // once
		c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	}
	if got := <-undone; got != `"third"` {
		t.Errorf("%s is undone; want the latest call with this id", got)
	}
	c.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
	if got := <-undone; got != `"first"` {
		t.Errorf("%s is undone", got)
	}
	c.in.Close()
	if err := <-c.ended; err != nil || len(undone) > 0 {
		t.Errorf("%v, %d more undone", err, len(undone))
	}
}

func TestCallsAtATimeAreBounded(t *testing.T) {
	var undone atomic.Int32
	c := converse(t, &Server{Tools: []Tool{blocking(make(chan struct{}), &undone)}})
	c.begin()
	for i := range maxCalls + 1 {
		id, _ := json.Marshal(i)
		c.say(`{"jsonrpc":"2.0","id":` + string(id) + `,"method":"tools/call","params":{"name":"wait"}}`)
	}
	if got := c.hear(); !strings.Contains(got, "64 calls are running") {
		t.Error(got)
	}
}

// When the client has gone, its calls are cancelled, and Serve returns when they have returned.
func TestServeEndsWithItsClient(t *testing.T) {
	var undone atomic.Int32
	for _, tt := range []struct {
		name string
		end  error
		want error
	}{{"the stream ends", io.EOF, nil}, {"it fails", errors.ErrUnsupported, errors.ErrUnsupported}} {
		t.Run(tt.name, func(t *testing.T) {
			c := converse(t, &Server{Tools: []Tool{blocking(make(chan struct{}), &undone)}})
			c.begin()
			c.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait"}}`)
			c.in.CloseWithError(tt.end)
			go io.Copy(io.Discard, c.out)
			select {
			case err := <-c.ended:
				if !errors.Is(err, tt.want) {
					t.Errorf("%v; want %v", err, tt.want)
				}
			case <-time.After(10 * time.Second):
				t.Error("Serve goes on")
			}
		})
	}
}

// A client that reads no more is gone, though its other stream is open.
func TestServeEndsWhenItCannotAnswer(t *testing.T) {
	c := converse(t, &Server{})
	c.begin()
	c.answers.Close()
	c.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	select {
	case err := <-c.ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Serve goes on")
	}
}

func TestLogIsForClientsThatHaveBegun(t *testing.T) {
	s := &Server{Name: "n"}
	c := converse(t, s)
	s.Log("error", "too early")
	c.begin()
	go s.Log("error", "lost")
	if got, want := c.hear(), `{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"lost","level":"error","logger":"n"}}`; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// Whatever a client sends, the server answers with JSON, and ends with its client.
func FuzzServe(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}` + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}`))
	f.Add([]byte(`[{"jsonrpc":"2.0","id":"x","method":"tools/list"}]`))
	f.Add([]byte("{}\n[]\nnull\n5\n\"\"\n"))
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26"}}` + "\n" + `[1,{"jsonrpc":"2.0","id":2,"method":"prompts/list"},{"id":3,"method":{}}]`))
	f.Add([]byte(`{"id":1,"x":"` + strings.Repeat("x", maxLine) + `"}` + "\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out strings.Builder
		if err := (&Server{Tools: []Tool{echo}}).Serve(t.Context(), strings.NewReader(string(in)), &out); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if !json.Valid([]byte(line)) || !strings.HasPrefix(line, `{"jsonrpc":"2.0"`) {
				t.Fatalf("answer %q", line)
			}
		}
	})
}
