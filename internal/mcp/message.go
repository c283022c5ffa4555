package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine is the longest message that the server accepts, in bytes.
const maxLine = 1 << 20

// The error codes of JSON-RPC 2.0.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeNoMethod       = -32601
	codeInvalidParams  = -32602
)

// A message is a request, a notification (without ID), or an answer (without Method).
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  any             `json:"params,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *rpcError       `json:"error,omitempty"`
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// A request is a message from the client.
type request struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"` // of an answer, as Error is
	Error   json.RawMessage `json:"error"`
}

// fault returns what is wrong with the request as a request of JSON-RPC, or "".
func (r *request) fault() string {
	switch {
	case r.Version != "2.0":
		return `the message has no "jsonrpc": "2.0"`
	case len(r.ID) > 0 && r.ID[0] != '"' && r.ID[0] != '-' && (r.ID[0] < '0' || r.ID[0] > '9'):
		return "the id of a request is a string or a number"
	case len(r.ID) > maxID:
		return fmt.Sprintf("the id is longer than %d bytes", maxID)
	}
	return ""
}

// A faultyMessage is what is wrong with a line. The server answers it with this error.
type faultyMessage struct {
	id   json.RawMessage // null if it is not known
	code int
	text string
}

func (e *faultyMessage) Error() string { return e.text }

var null = json.RawMessage("null")

// readLine reads the next line that is not empty. The result is valid until the next call. If the line is longer than
// maxLine, readLine skips it, and the error is a *faultyMessage.
func readLine(r *bufio.Reader) ([]byte, error) {
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			var id idFinder
			for id.scan(line); errors.Is(err, bufio.ErrBufferFull); id.scan(line) {
				line, err = r.ReadSlice('\n')
			}
			if err != nil {
				return nil, err
			}
			return nil, &faultyMessage{id.found(), codeInvalidRequest, fmt.Sprintf("the message is longer than %d bytes", maxLine)}
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// maxID is the length of the longest id that is answered, in bytes.
const maxID = 256

// An idFinder finds the id of a message that is too long to be kept. It looks at the members of the outer object, and
// keeps only the beginning of each.
type idFinder struct {
	depth    int // of brackets
	inString bool
	escaped  bool
	member   []byte // as far as it is known
	id       json.RawMessage
}

func (f *idFinder) scan(piece []byte) {
	for _, c := range piece {
		switch {
		case f.escaped:
			f.escaped = false
		case f.inString:
			f.escaped = c == '\\'
			f.inString = c != '"'
		case c == '"':
			f.inString = true
		case c == '{' || c == '[':
			if f.depth++; f.depth == 1 {
				f.member = append(f.member, c) // of an array: its elements have no names
				continue
			}
		case c == '}' || c == ']':
			if f.depth--; f.depth == 0 {
				f.end()
			}
		case c == ',' && f.depth == 1:
			f.end()
			continue
		}
		if len(f.member) < 2*maxID {
			f.member = append(f.member, c)
		}
	}
}

// end takes a member of the outer object.
func (f *idFinder) end() {
	var r struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(append(f.member, '}'), &r) == nil && len(r.ID) > 0 {
		f.id = r.ID
	}
	f.member = append(f.member[:0], '{')
}

// found returns the id, or null.
func (f *idFinder) found() json.RawMessage { return answerable(f.id) }

// answerable returns the id of an answer to a message that is no request: null if the message has none.
func answerable(id json.RawMessage) json.RawMessage {
	if r := (request{Version: "2.0", ID: id}); len(id) == 0 || r.fault() != "" {
		return null
	}
	return id
}

// parse returns the messages of a line: one, or those of a batch. Errors are *faultyMessage.
func parse(line []byte) (messages []json.RawMessage, batch bool, err error) {
	if line[0] != '[' {
		messages = []json.RawMessage{line}
		err = json.Unmarshal(line, new(json.RawMessage))
	} else if err = json.Unmarshal(line, &messages); err == nil && len(messages) == 0 {
		return nil, true, &faultyMessage{null, codeInvalidRequest, "the batch is empty"}
	}
	if err != nil {
		return nil, false, &faultyMessage{null, codeParse, err.Error()}
	}
	return messages, line[0] == '[', nil
}

// parseRequest reads one message, which is JSON. The error is a *faultyMessage.
func parseRequest(m json.RawMessage) (r request, err error) {
	if m[0] != '{' {
		return r, &faultyMessage{null, codeInvalidRequest, "the message is no JSON object"}
	}
	err = json.Unmarshal(m, &r)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return r, &faultyMessage{answerable(r.ID), codeInvalidRequest, "a member of the message has the wrong type: " + wrong.Field}
	}
	if err != nil {
		return r, &faultyMessage{null, codeInvalidRequest, err.Error()}
	}
	return r, nil
}
