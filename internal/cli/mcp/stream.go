package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxLine  = 1 << 20 // bytes of the longest message
	maxID    = 256     // bytes of the longest id of a request
	maxCalls = 64      // calls of tools that run at a time
)

// idHeader is the header of a request in which a tool finds the id of its call, for undoable.
const idHeader = "Request-Id"

// A stream is the connection with the client: one message of JSON-RPC a line. The SDK ends a session at the first line
// that is no message. A stream answers such a line, so that the agent keeps its locks, and bounds what a client can ask for.
// It sends no answer to a call that the client has cancelled, and undoes what the call did.
type stream struct {
	in     io.Reader
	out    io.Writer
	queue  []json.RawMessage // the rest of a batch
	lines  chan inputLine
	closed chan struct{} // by Close

	writing sync.Mutex // is held while a line is written

	mu      sync.Mutex          // guards the fields below
	changed sync.Cond           // quick has changed, or the stream was closed
	pending map[string]*pending // requests without an answer
	calls   int                 // requests that can wait, until their answers are written
	quick   int                 // other requests, until then
	late    []undoable          // the latest calls that have an answer and can be undone
	failure error               // of in
}

// An inputLine is a message or a batch of them.
type inputLine struct {
	text []byte
	err  error // in has ended; or a *jsonrpc.Error, which is the answer to the line
}

// A pending request has no answer yet.
type pending struct {
	call      bool // of a tool, which can wait
	cancelled bool
	undo      func() // or nil
}

// undoable is what undoes an answered call.
type undoable struct {
	id   string
	undo func()
}

func newStream(in io.Reader, out io.Writer) *stream {
	s := &stream{in: in, out: out, lines: make(chan inputLine), closed: make(chan struct{}), pending: make(map[string]*pending)}
	s.changed.L = &s.mu
	return s
}

// Connect implements sdk.Transport. A goroutine reads until in ends, which may be after Close.
func (s *stream) Connect(context.Context) (sdk.Connection, error) {
	go func() {
		r := bufio.NewReaderSize(s.in, maxLine)
		for {
			text, err := readLine(r)
			select {
			case s.lines <- inputLine{bytes.Clone(text), err}:
			case <-s.closed:
				return
			}
			if _, faulty := errors.AsType[*jsonrpc.Error](err); err != nil && !faulty {
				return
			}
		}
	}()
	return s, nil
}

// SessionID implements sdk.Connection.
func (s *stream) SessionID() string { return "" }

// Close implements sdk.Connection. It leaves in and out open.
func (s *stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
	default:
		close(s.closed)
		s.changed.Broadcast()
	}
	return nil
}

// readLine reads the next line that is not empty. The result is valid until the next call. If the line is longer than
// maxLine, readLine skips it, and the error is a *jsonrpc.Error.
func readLine(r *bufio.Reader) ([]byte, error) {
	for {
		text, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.ReadSlice('\n')
			}
			if err != nil {
				return nil, err
			}
			return nil, invalid("the message is longer than %d bytes", maxLine)
		}
		if text = bytes.TrimSpace(text); len(text) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			return text, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func invalid(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// Read implements sdk.Connection. It returns the next message that the SDK should handle.
func (s *stream) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := s.next(ctx)
		if faulty, ok := errors.AsType[*jsonrpc.Error](err); ok {
			s.refuse(jsonrpc.ID{}, faulty)
			continue
		}
		if err != nil {
			s.settle(err)
			return nil, err
		}
		r, ok := m.(*jsonrpc.Request)
		switch {
		case !ok: // the SDK drops an answer to nothing
		case r.IsCall():
			if id, err := s.admit(r); err != nil {
				s.refuse(id, err)
				continue
			}
		case r.Method == "notifications/cancelled":
			s.cancel(r.Params)
		}
		return m, nil
	}
}

// next reads a message. The error is a *jsonrpc.Error if a line is no message. A batch is answered message by message.
func (s *stream) next(ctx context.Context) (jsonrpc.Message, error) {
	for len(s.queue) == 0 {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.closed:
			return nil, io.EOF
		case l := <-s.lines:
			if l.err != nil {
				return nil, l.err
			}
			if !json.Valid(l.text) {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is no JSON"}
			}
			s.queue = []json.RawMessage{l.text}
			if l.text[0] == '[' {
				_ = json.Unmarshal(l.text, &s.queue) // it is an array
			}
			if len(s.queue) == 0 {
				return nil, invalid("the batch is empty")
			}
		}
	}
	text := s.queue[0]
	s.queue = s.queue[1:]
	m, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return nil, invalid("%v", err)
	}
	return m, nil
}

// admit records a request. The error says why it is refused, and id is that of the answer. If the client reads no answers,
// admit waits, so that the client cannot fill the memory.
func (s *stream) admit(r *jsonrpc.Request) (id jsonrpc.ID, _ *jsonrpc.Error) {
	if text, ok := r.ID.Raw().(string); ok && len(text) > maxID {
		return id, invalid("the id is longer than %d bytes", maxID)
	}
	key := keyOf(r.ID)
	call := r.Method == "tools/call" || r.Method == "subscriptions/listen"
	s.mu.Lock()
	defer s.mu.Unlock()
	for !call && s.quick >= maxCalls && !s.over() {
		s.changed.Wait()
	}
	switch {
	case s.pending[key] != nil:
		return r.ID, invalid("a call with this id is running")
	case call && s.calls >= maxCalls:
		return r.ID, invalid("%d calls are running; wait for one of them to end", maxCalls)
	case call:
		s.calls++
	default:
		s.quick++
	}
	s.pending[key] = &pending{call: call}
	s.undoOf(key) // a client that uses an id again means the later call
	r.Extra = &sdk.RequestExtra{Header: http.Header{idHeader: {key}}}
	return r.ID, nil
}

// keyOf returns the id as text. The string "1" and the number 1 are two ids.
func keyOf(id jsonrpc.ID) string { return fmt.Sprintf("%#v", id.Raw()) }

// over reports whether the stream is closed.
func (s *stream) over() bool {
	select {
	case <-s.closed:
		return true
	default:
		return false
	}
}

// settle waits for the answers that the client has asked for before the end of in. The SDK sends none after Read has
// returned its error. Calls of tools are cancelled then.
func (s *stream) settle(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(err, io.EOF) {
		s.failure = err
	}
	for s.quick > 0 && !s.over() {
		s.changed.Wait()
	}
}

// failed returns the error of in, or nil if in has ended.
func (s *stream) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// cancel notes that the client does not want an answer any more. The SDK ends the call. If it has ended, its answer and
// the cancellation have crossed: the client ignores the answer, so the call is undone.
func (s *stream) cancel(params json.RawMessage) {
	var p sdk.CancelledParams
	if json.Unmarshal(params, &p) != nil {
		return // notifications are not answered
	}
	id, err := jsonrpc.MakeID(p.RequestID)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if request := s.pending[keyOf(id)]; request != nil {
		request.cancelled = true
	} else if undo := s.undoOf(keyOf(id)); undo != nil {
		go undo()
	}
}

// undoOf returns what undoes an answered call, or nil, and forgets it. s.mu must be held.
func (s *stream) undoOf(id string) func() {
	i := slices.IndexFunc(s.late, func(u undoable) bool { return u.id == id })
	if i < 0 {
		return nil
	}
	undo := s.late[i].undo
	s.late = slices.Delete(s.late, i, i+1)
	return undo
}

// undoable records what undoes a call if the client cancels it.
func (s *stream) undoable(header http.Header, undo func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if request := s.pending[header.Get(idHeader)]; request != nil {
		request.undo = undo
	}
}

// Write implements sdk.Connection.
func (s *stream) Write(_ context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		if request := s.answered(keyOf(r.ID)); request != nil {
			defer s.written(request)
			if request.cancelled { // the protocol wants no answer
				if request.undo != nil {
					request.undo()
				}
				return nil
			}
		}
	}
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return s.writeLine(text)
}

// answered returns the request with an id, or nil, and forgets it. If it can be undone, it still can be cancelled.
func (s *stream) answered(id string) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	request := s.pending[id]
	if request == nil {
		return nil
	}
	delete(s.pending, id)
	if !request.cancelled && request.undo != nil {
		if s.late = append(s.late, undoable{id, request.undo}); len(s.late) > maxCalls {
			s.late = slices.Delete(s.late, 0, 1)
		}
	}
	return request
}

// written makes room for another request.
func (s *stream) written(request *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if request.call {
		s.calls--
	} else {
		s.quick--
		s.changed.Broadcast()
	}
}

func (s *stream) writeLine(text []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.out.Write(append(text, '\n'))
	return err
}

// refuse answers a request that the SDK does not see, or a line that is none. If out has failed, the next answer says so.
func (s *stream) refuse(id jsonrpc.ID, err *jsonrpc.Error) {
	answer := struct {
		Version string         `json:"jsonrpc"`
		ID      any            `json:"id"`
		Error   *jsonrpc.Error `json:"error"`
	}{"2.0", id.Raw(), err}
	text, _ := json.Marshal(answer) // of strings and numbers
	_ = s.writeLine(text)
}
