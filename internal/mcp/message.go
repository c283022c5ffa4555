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
	case len(r.ID) > 256:
		return "the id is longer than 256 bytes"
	}
	return ""
}

// errTooLong means that a line was longer than maxLine. It was skipped.
var errTooLong = fmt.Errorf("the message is longer than %d bytes", maxLine)

// readLine reads the next line that is not empty. The result is valid until the next call.
func readLine(r *bufio.Reader) ([]byte, error) {
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			for errors.Is(err, bufio.ErrBufferFull) {
				_, err = r.ReadSlice('\n')
			}
			if err != nil {
				return nil, err
			}
			return nil, errTooLong
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			return line, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// parse returns the requests of a line: one, or those of a batch, which the version 2025-03-26 of the protocol has.
// Each request of a batch is answered by a message of its own.
func parse(line []byte) ([]request, error) {
	if line[0] == '[' {
		var batch []request
		err := json.Unmarshal(line, &batch)
		if err == nil && len(batch) == 0 {
			err = errors.New("the batch is empty")
		}
		return batch, err
	}
	var one request
	err := json.Unmarshal(line, &one)
	return []request{one}, err
}
