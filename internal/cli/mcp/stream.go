package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxLine is how many bytes a message has at most.
const maxLine = 1 << 20

// A stream is the connection with the client: one message of JSON-RPC a line. The SDK ends a session at the first line
// that is no message. A stream answers such a line, so that the agent keeps its locks, and bounds what a client can ask for.
// It sends no answer to a call that the client has cancelled, and undoes what the call did.
type stream struct {
	in     io.Reader
	out    io.Writer
	queue  []json.RawMessage // the rest of a batch
	lines  chan inputLine
	closed chan struct{} // by Close
	once   sync.Once     // of Close

	writing sync.Mutex // is held while a line is written

	requests *requests

	mu      sync.Mutex // guards the field below
	failure error      // of in
}

// An inputLine is a message or a batch of them.
type inputLine struct {
	text []byte
	err  error // in has ended; or a *jsonrpc.Error, which is the answer to the line
}

func newStream(in io.Reader, out io.Writer) *stream {
	return &stream{in: in, out: out, lines: make(chan inputLine), closed: make(chan struct{}), requests: newRequests()}
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
	s.once.Do(func() {
		close(s.closed)
		s.requests.close()
	})
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

// Read implements sdk.Connection. It returns the next message that the SDK should handle.
func (s *stream) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := s.next(ctx)
		if faulty, ok := errors.AsType[*jsonrpc.Error](err); ok {
			s.refuse(jsonrpc.ID{}, faulty)
			continue
		}
		if err != nil {
			s.end(err)
			return nil, err
		}
		r, ok := m.(*jsonrpc.Request)
		switch {
		case !ok: // the SDK drops an answer to nothing
		case r.IsCall():
			if id, err := s.requests.admit(r); err != nil {
				s.refuse(id, err)
				continue
			}
		case r.Method == "notifications/cancelled":
			s.requests.cancel(r.Params)
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

// end notes the end of in. It waits for the answers that the client has asked for before it: the SDK sends none after Read
// has returned its error. Calls of tools are cancelled then.
func (s *stream) end(err error) {
	if !errors.Is(err, io.EOF) {
		s.mu.Lock()
		s.failure = err
		s.mu.Unlock()
	}
	s.requests.settle()
}

// failed returns the error of in, or nil if in has ended.
func (s *stream) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// Write implements sdk.Connection.
func (s *stream) Write(_ context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		if request := s.requests.answered(keyOf(r.ID)); request != nil {
			defer s.requests.written(request)
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
