package hold

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"

	"holdfast/internal/cli/term"
	"holdfast/internal/daemon"
)

// AnswerPatience is how long a client may take to read an answer.
const AnswerPatience = 5 * time.Second

// Listen listens at addr, the address that is given as the value of a flag.
func Listen(flag, given, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("%s %s: %w", flag, term.Cut(given, 80), err), Hint: "choose another address, or end the process that listens there"}
	}
	return l, nil
}

// Answering is an HTTP server about this process. Its clients cannot keep it busy.
type Answering struct {
	Address string
	server  *http.Server
	serving sync.WaitGroup
}

// Answer answers with handler until close.
func Answer(l net.Listener, handler http.Handler) *Answering {
	a := &Answering{Address: l.Addr().String(), server: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: AnswerPatience,
		ReadTimeout:       AnswerPatience,
		WriteTimeout:      AnswerPatience,
		IdleTimeout:       AnswerPatience,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // faults of clients
	}}
	a.serving.Go(func() { _ = a.server.Serve(daemon.BoundedListener(l, daemon.AdminConnections)) })
	return a
}

// Close ends the answers. On nil it does nothing.
func (a *Answering) Close() {
	if a != nil {
		_ = a.server.Close()
		a.serving.Wait()
	}
}
