package terraform

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	// grace is how long a body or an answer has to begin, and leastRate how many bytes of it have to pass in each second
	// after that.
	grace     = 10 * time.Second
	leastRate = 8 << 10
	// chunk is how much of a body is counted at a time.
	chunk = 64 << 10
)

// clientKey is the key of a request's client in its context.
type clientKey struct{}

// clientOf returns what the client of a request counts for: its user or token, and its address.
func clientOf(ctx context.Context) []string {
	keys, _ := ctx.Value(clientKey{}).([]string)
	return keys
}

var past = time.Unix(1, 0)

// dueAt returns until when more than n bytes have to have passed.
func dueAt(ctx context.Context, began time.Time, n int) time.Time {
	due := began.Add(grace + time.Duration(n)*time.Second/leastRate)
	if end, ok := ctx.Deadline(); ok && end.Before(due) {
		return end
	}
	return due
}

// errShare is the answer to a client whose states on the way take too much memory.
var errShare = &refusal{status: http.StatusServiceUnavailable, text: "too many large states of this user or address are on their way"}

// receive reads the body of a request with a state. The bytes count for the client until done is called. A client that
// sends slowly holds nothing that others wait for, and loses its connection.
func (b *Backend) receive(ctx context.Context, w http.ResponseWriter, r *http.Request) (body []byte, done func(), err error) {
	c := http.NewResponseController(w)
	use := b.uploads.Enter(func() { _ = c.SetReadDeadline(past) }, clientOf(ctx)...)
	body, err = readBody(ctx, w, r, b.cfg.MaxState, use.Grow)
	if err != nil {
		use.Leave()
		return nil, nil, err
	}
	return body, use.Leave, nil
}

// readBody reads the body of a request and checks its Content-MD5. grow is called with the size of each part.
func readBody(ctx context.Context, w http.ResponseWriter, r *http.Request, most int64, grow func(int64) bool) (body []byte, err error) {
	c := http.NewResponseController(w)
	from := http.MaxBytesReader(w, r.Body, most)
	part := make([]byte, chunk)
	for began := time.Now(); err == nil; {
		_ = c.SetReadDeadline(dueAt(ctx, began, len(body))) // a recorder of a test has none
		var n int
		if grow(0) {
			n, err = from.Read(part)
		}
		if body = append(body, part[:n]...); !grow(int64(n)) {
			return nil, errShare
		}
	}
	_, long := errors.AsType[*http.MaxBytesError](err)
	switch want := r.Header.Get("Content-MD5"); {
	case long:
		return nil, &refusal{status: http.StatusRequestEntityTooLarge, text: fmt.Sprintf("the body is longer than %d bytes", most)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &refusal{status: http.StatusRequestTimeout, text: fmt.Sprintf("the body arrived too slowly: want %d bytes a second", leastRate)}
	case !errors.Is(err, io.EOF):
		return nil, &refusal{status: http.StatusBadRequest, text: "the body did not arrive"}
	case want != "" && want != digest(body):
		return nil, &refusal{status: http.StatusBadRequest, text: "the body does not match its Content-MD5"}
	}
	if end, ok := ctx.Deadline(); ok {
		_ = c.SetReadDeadline(end) // from now on, the server notices if the client goes
	}
	return body, nil
}

// send answers with a state. A client that reads slowly loses its connection.
func send(ctx context.Context, w http.ResponseWriter, state []byte) {
	c := http.NewResponseController(w)
	began := time.Now()
	for sent := 0; sent < len(state); {
		_ = c.SetWriteDeadline(dueAt(ctx, began, sent))
		if ctx.Err() != nil {
			return // its share is taken, or its time is over
		}
		n, err := w.Write(state[sent:min(sent+chunk, len(state))])
		if err != nil {
			return
		}
		sent += n
	}
}
