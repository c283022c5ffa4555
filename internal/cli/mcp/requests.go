package mcp

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxID    = 256 // bytes of the longest id of a request
	maxCalls = 64  // calls of tools that run at a time
)

// idHeader is the header of a request in which a tool finds the id of its call, for undoable.
const idHeader = "Request-Id"

// The requests of a client are those without an answer, and the latest ones that can still be undone.
type requests struct {
	mu      sync.Mutex          // guards the fields below
	changed sync.Cond           // quick has changed, or the stream was closed
	pending map[string]*pending // requests without an answer
	calls   int                 // requests that can wait, until their answers are written
	quick   int                 // other requests, until then
	late    []undoable          // the latest calls that have an answer and can be undone
	closed  bool
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

func newRequests() *requests {
	r := &requests{pending: make(map[string]*pending)}
	r.changed.L = &r.mu
	return r
}

// close ends the waits of admit and settle.
func (r *requests) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.changed.Broadcast()
}

// admit records a request. The error says why it is refused, and id is that of the answer. If the client reads no answers,
// admit waits, so that the client cannot fill the memory.
func (r *requests) admit(request *jsonrpc.Request) (id jsonrpc.ID, _ *jsonrpc.Error) {
	if text, ok := request.ID.Raw().(string); ok && len(text) > maxID {
		return id, invalid("the id is longer than %d bytes", maxID)
	}
	key := keyOf(request.ID)
	call := request.Method == "tools/call" || request.Method == "subscriptions/listen"
	r.mu.Lock()
	defer r.mu.Unlock()
	for !call && r.quick >= maxCalls && !r.closed {
		r.changed.Wait()
	}
	switch {
	case r.pending[key] != nil:
		return request.ID, invalid("a call with this id is running")
	case call && r.calls >= maxCalls:
		return request.ID, invalid("%d calls are running; wait for one of them to end", maxCalls)
	case call:
		r.calls++
	default:
		r.quick++
	}
	r.pending[key] = &pending{call: call}
	r.undoOf(key) // a client that uses an id again means the later call
	request.Extra = &sdk.RequestExtra{Header: http.Header{idHeader: {key}}}
	return request.ID, nil
}

// keyOf returns the id as text. The string "1" and the number 1 are two ids.
func keyOf(id jsonrpc.ID) string { return fmt.Sprintf("%#v", id.Raw()) }

// settle waits for the answers of all requests but calls of tools.
func (r *requests) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.quick > 0 && !r.closed {
		r.changed.Wait()
	}
}

// cancel notes that the client does not want an answer any more. The SDK ends the call. If it has ended, its answer and
// the cancellation have crossed: the client ignores the answer, so the call is undone.
func (r *requests) cancel(params json.RawMessage) {
	var p sdk.CancelledParams
	if json.Unmarshal(params, &p) != nil {
		return // notifications are not answered
	}
	id, err := jsonrpc.MakeID(p.RequestID)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if request := r.pending[keyOf(id)]; request != nil {
		request.cancelled = true
	} else if undo := r.undoOf(keyOf(id)); undo != nil {
		go undo()
	}
}

// undoOf returns what undoes an answered call, or nil, and forgets it. r.mu must be held.
func (r *requests) undoOf(id string) func() {
	i := slices.IndexFunc(r.late, func(u undoable) bool { return u.id == id })
	if i < 0 {
		return nil
	}
	undo := r.late[i].undo
	r.late = slices.Delete(r.late, i, i+1)
	return undo
}

// undoable records what undoes a call if the client cancels it.
func (r *requests) undoable(header http.Header, undo func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if request := r.pending[header.Get(idHeader)]; request != nil {
		request.undo = undo
	}
}

// answered returns the request with an id, or nil, and forgets it. If it can be undone, it still can be cancelled.
func (r *requests) answered(id string) *pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	request := r.pending[id]
	if request == nil {
		return nil
	}
	delete(r.pending, id)
	if !request.cancelled && request.undo != nil {
		if r.late = append(r.late, undoable{id, request.undo}); len(r.late) > maxCalls {
			r.late = slices.Delete(r.late, 0, 1)
		}
	}
	return request
}

// written makes room for another request.
func (r *requests) written(request *pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if request.call {
		r.calls--
	} else {
		r.quick--
		r.changed.Broadcast()
	}
}

func invalid(format string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}
