package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// versions are the versions of the protocol that the server speaks, the newest first. A client that asks for another
// one is offered the newest.
var versions = []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}

// maxCalls is how many calls of tools can run at a time.
const maxCalls = 64

// A Tool is a function for the model.
type Tool struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Input       Schema `json:"inputSchema"`
	Hints       Hints  `json:"annotations"`

	// Call runs the tool. Its error is told to the model, which can do better in the next call. ctx ends when the
	// client cancels the call or has gone. Several calls can run at a time.
	Call func(ctx context.Context, c *Call) (*Result, error) `json:"-"`
}

// Hints say what a tool does, for the client that asks its user. All are sent, since a client assumes the worst of those
// that are absent.
type Hints struct {
	ReadOnly    bool `json:"readOnlyHint"`
	Destructive bool `json:"destructiveHint"`
	Idempotent  bool `json:"idempotentHint"`
	OpenWorld   bool `json:"openWorldHint"`
}

// A Schema is a JSON schema of an object.
type Schema struct {
	Type       string              `json:"type"` // object
	Properties map[string]Property `json:"properties"`
	Required   []string            `json:"required,omitempty"`
	Additional bool                `json:"additionalProperties"` // false must be sent: absent means true
}

// Object returns the schema of an object with these properties and no others.
func Object(properties map[string]Property, required ...string) Schema {
	return Schema{Type: "object", Properties: properties, Required: required}
}

// A Property is the JSON schema of an argument.
type Property struct {
	Type        string `json:"type"`
	Description string `json:"description"`
}

// A Call is one call of a tool.
type Call struct {
	Client string // the name and the version of the client

	arguments json.RawMessage
	progress  func(text string)
}

// Arguments decodes the arguments into the struct that v points to. A name that it does not have is an error.
func (c *Call) Arguments(v any) error {
	if len(c.arguments) == 0 {
		return nil
	}
	d := json.NewDecoder(strings.NewReader(string(c.arguments)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("arguments: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// Progress tells the client how a long call gets on, if it has asked for that.
func (c *Call) Progress(text string) {
	if c.progress != nil {
		c.progress(text)
	}
}

// A Result is what a tool returns.
type Result struct {
	Text string // for the model
	Data any    // the same as a JSON object, for programs

	// Undo is called if the client has cancelled the call: it gets no answer, so it does not know what the call did. It is also
	// called if the client cancels the call after the answer was sent: the two have crossed, and the client ignores the answer.
	Undo func()
}

// A Server offers tools to one client.
type Server struct {
	Name, Title, Version string
	Instructions         string // for the model
	Tools                []Tool

	out struct {
		sync.Mutex // is held while a line is written
		io.Writer
		failed context.CancelFunc // ends Serve
	}

	mu      sync.Mutex // guards the fields below
	ready   bool       // the client has initialized the session
	version string     // of the protocol, as agreed then
	client  string
	level   int                 // of Log, by the place in levels
	running map[string]*running // by id
	undos   []answered          // the latest calls that can be undone
}

// answered is a call that was answered.
type answered struct {
	id   string
	undo func()
}

// running is a call that has not returned.
type running struct {
	cancel    context.CancelFunc
	cancelled bool // by the client
}

// Serve answers the client until in ends, ctx ends or out fails. Then it cancels the calls that run, and returns when
// all have returned. The error is that of in, unless in has ended; it is nil if ctx has ended or out has failed: then the client is gone. Serve reads from in in
// a goroutine that ends with in, which may be after Serve has returned.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	s.out.Writer, s.out.failed = out, cancel
	s.running = make(map[string]*running)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	lines := make(chan received)
	go func() {
		r := bufio.NewReaderSize(in, maxLine)
		for {
			var next received
			line, err := readLine(r)
			if err == nil {
				next.messages, next.batch, err = parse(bytes.Clone(line))
			}
			next.err = err
			select {
			case lines <- next:
			case <-ctx.Done():
				return
			}
			if _, ok := errors.AsType[*faultyMessage](err); err != nil && !ok {
				return
			}
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case next := <-lines:
			_, faulty := errors.AsType[*faultyMessage](next.err)
			switch {
			case next.batch && !s.hasBatches():
				s.refuse(&faultyMessage{null, codeInvalidRequest, "this version of the protocol has no batches"})
				continue
			case faulty:
				s.refuse(next.err)
			case errors.Is(next.err, io.EOF):
				return nil
			case next.err != nil:
				return next.err
			}
			for _, m := range next.messages {
				r, err := parseRequest(m)
				if err != nil {
					s.refuse(err)
					continue
				}
				s.handle(ctx, &calls, r)
			}
		}
	}
}

// hasBatches reports whether the version of the protocol that client and server have agreed on has batches.
func (s *Server) hasBatches() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version == "2025-03-26"
}

// received is a line of the client.
type received struct {
	messages []json.RawMessage
	batch    bool
	err      error // the stream has ended; or a *faultyMessage
}

// levels are the words of syslog, the mildest first.
var levels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// Log tells the client something that is the answer to no call, unless it wants messages of worse levels only. level is
// one of syslog's words, such as "error".
func (s *Server) Log(level, text string) {
	s.mu.Lock()
	wanted := s.ready && slices.Index(levels, level) >= s.level
	s.mu.Unlock()
	if wanted {
		s.send(&message{Method: "notifications/message", Params: map[string]any{"level": level, "logger": s.Name, "data": text}})
	}
}

func (s *Server) send(m *message) {
	m.Version = "2.0"
	line, err := json.Marshal(m)
	if err != nil { // an answer of ours that is no JSON
		line, _ = json.Marshal(&message{Version: "2.0", ID: m.ID, Error: &rpcError{codeInvalidRequest, err.Error()}})
	}
	s.out.Lock()
	defer s.out.Unlock()
	if _, err := s.out.Write(append(line, '\n')); err != nil {
		s.out.failed()
	}
}

// refuse answers a line that is no request. err is a *faultyMessage.
func (s *Server) refuse(err error) {
	if f, ok := errors.AsType[*faultyMessage](err); ok {
		s.fail(f.id, f.code, f.text)
	}
}

func (s *Server) fail(id json.RawMessage, code int, text string) {
	s.send(&message{ID: id, Error: &rpcError{code, text}})
}

// handle answers one request. Calls of tools go on in goroutines.
func (s *Server) handle(ctx context.Context, calls *sync.WaitGroup, r request) {
	if len(r.Result) > 0 || len(r.Error) > 0 {
		return // an answer, and this server sends no requests
	}
	notification := len(r.ID) == 0
	if text := r.fault(); text != "" {
		s.fail(answerable(r.ID), codeInvalidRequest, text)
		return
	}
	if notification {
		if r.Method == "notifications/cancelled" {
			s.cancel(calls, r.Params)
		}
		return
	}
	s.mu.Lock()
	ready := s.ready
	s.mu.Unlock()
	switch {
	case r.Method == "initialize":
		s.initialize(r)
	case r.Method == "ping":
		s.send(&message{ID: r.ID, Result: struct{}{}})
	case !ready:
		s.fail(r.ID, codeInvalidRequest, "the session begins with initialize")
	case r.Method == "tools/list":
		s.send(&message{ID: r.ID, Result: map[string]any{"tools": s.Tools}})
	case r.Method == "tools/call":
		s.call(ctx, calls, r)
	case r.Method == "logging/setLevel":
		s.setLevel(r)
	case empty[r.Method] != "":
		s.send(&message{ID: r.ID, Result: map[string]any{empty[r.Method]: []any{}}})
	default:
		s.fail(r.ID, codeNoMethod, fmt.Sprintf("no method %.100q", r.Method))
	}
}

// empty are the lists of what the server does not have, with the names of their results. Clients ask for them although
// the server does not announce them, and show a server that answers with an error as failed.
var empty = map[string]string{"resources/list": "resources", "resources/templates/list": "resourceTemplates", "prompts/list": "prompts"}

func (s *Server) setLevel(r request) {
	var p struct{ Level string }
	if len(r.Params) > 0 {
		if err := json.Unmarshal(r.Params, &p); err != nil {
			s.fail(r.ID, codeInvalidParams, "logging/setLevel: "+err.Error())
			return
		}
	}
	level := slices.Index(levels, p.Level)
	if level < 0 {
		last := len(levels) - 1
		s.fail(r.ID, codeInvalidParams, fmt.Sprintf("no level %.100q: want %s or %s", p.Level, strings.Join(levels[:last], ", "), levels[last]))
		return
	}
	s.mu.Lock()
	s.level = level
	s.mu.Unlock()
	s.send(&message{ID: r.ID, Result: struct{}{}})
}

func (s *Server) initialize(r request) {
	var p struct {
		ProtocolVersion string `json:"protocolVersion"`
		ClientInfo      struct {
			Name, Version string
		} `json:"clientInfo"`
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		s.fail(r.ID, codeInvalidParams, "initialize: "+err.Error())
		return
	}
	version := versions[0]
	if slices.Contains(versions, p.ProtocolVersion) {
		version = p.ProtocolVersion
	}
	s.mu.Lock()
	s.ready, s.version, s.client = true, version, strings.TrimSpace(p.ClientInfo.Name+" "+p.ClientInfo.Version)
	s.mu.Unlock()
	s.send(&message{ID: r.ID, Result: map[string]any{
		"protocolVersion": version,
		"capabilities":    map[string]any{"tools": struct{}{}, "logging": struct{}{}},
		"serverInfo":      map[string]string{"name": s.Name, "title": s.Title, "version": s.Version},
		"instructions":    s.Instructions,
	}})
}

// cancel ends a call that the client no longer wants.
func (s *Server) cancel(calls *sync.WaitGroup, params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil {
		return // notifications are not answered
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.running[string(p.RequestID)]; c != nil {
		c.cancelled = true
		c.cancel()
	} else if undo := s.undoOf(string(p.RequestID)); undo != nil {
		calls.Go(undo)
	}
}

// undoOf returns the Undo of an answered call, or nil, and forgets it. mu must be held.
func (s *Server) undoOf(id string) func() {
	i := slices.IndexFunc(s.undos, func(a answered) bool { return a.id == id })
	if i < 0 {
		return nil
	}
	undo := s.undos[i].undo
	s.undos = slices.Delete(s.undos, i, i+1)
	return undo
}

// call runs a tool in a goroutine.
func (s *Server) call(ctx context.Context, calls *sync.WaitGroup, r request) {
	var p struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
		Meta      struct {
			ProgressToken json.RawMessage `json:"progressToken"`
		} `json:"_meta"`
	}
	if err := json.Unmarshal(r.Params, &p); err != nil {
		s.fail(r.ID, codeInvalidParams, "tools/call: "+err.Error())
		return
	}
	i := slices.IndexFunc(s.Tools, func(t Tool) bool { return t.Name == p.Name })
	if i < 0 {
		s.fail(r.ID, codeInvalidParams, fmt.Sprintf("no tool %.100q", p.Name))
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	mine := &running{cancel: cancel}
	s.mu.Lock()
	_, twice := s.running[string(r.ID)]
	full := len(s.running) >= maxCalls
	if !twice && !full {
		s.running[string(r.ID)] = mine
		s.undoOf(string(r.ID)) // a client that uses an id again means the later call
	}
	c := &Call{Client: s.client, arguments: p.Arguments}
	s.mu.Unlock()
	switch {
	case twice:
		s.fail(r.ID, codeInvalidRequest, "a call with this id is running")
	case full:
		s.fail(r.ID, codeInvalidRequest, fmt.Sprintf("%d calls are running; wait for one of them to end", maxCalls))
	}
	if twice || full {
		cancel()
		return
	}
	if token := p.Meta.ProgressToken; len(token) > 0 && string(token) != "null" {
		n := 0 // the protocol wants a number that grows
		c.progress = func(text string) {
			n++
			s.send(&message{Method: "notifications/progress", Params: map[string]any{"progressToken": token, "progress": n, "message": text}})
		}
	}
	calls.Go(func() {
		defer cancel()
		result, err := s.Tools[i].Call(ctx, c)
		s.mu.Lock()
		delete(s.running, string(r.ID))
		cancelled := mine.cancelled
		if !cancelled && err == nil && result.Undo != nil {
			if s.undos = append(s.undos, answered{string(r.ID), result.Undo}); len(s.undos) > maxCalls {
				s.undos = slices.Delete(s.undos, 0, 1)
			}
		}
		s.mu.Unlock()
		if cancelled {
			if err == nil && result.Undo != nil {
				result.Undo()
			}
			return // the protocol wants no answer
		}
		s.send(&message{ID: r.ID, Result: answer(result, err)})
	})
}

// answer is the result of a call as the protocol has it.
func answer(r *Result, err error) any {
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	var a struct {
		Content    []content `json:"content"`
		Structured any       `json:"structuredContent,omitempty"`
		IsError    bool      `json:"isError,omitempty"`
	}
	if err != nil {
		a.Content, a.IsError = []content{{"text", err.Error()}}, true
		return a
	}
	a.Content, a.Structured = []content{{"text", r.Text}}, r.Data
	return a
}
