package main

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

// answerPatience is how long a client may take to read an answer.
const answerPatience = 5 * time.Second

// listen listens at addr, the address that is given as the value of a flag.
func listen(flag, given, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, &term.Fault{Code: term.ExitFailed, Err: fmt.Errorf("%s %s: %w", flag, term.Cut(given, 80), err), Hint: "choose another address, or end the process that listens there"}
	}
	return l, nil
}

// answering is an HTTP server about this process. Its clients cannot keep it busy.
type answering struct {
	address string
	server  *http.Server
	serving sync.WaitGroup
}

// answer answers with handler until close.
func answer(l net.Listener, handler http.Handler) *answering {
	a := &answering{address: l.Addr().String(), server: &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: answerPatience,
		ReadTimeout:       answerPatience,
		WriteTimeout:      answerPatience,
		IdleTimeout:       answerPatience,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // faults of clients
	}}
	a.serving.Go(func() { _ = a.server.Serve(daemon.BoundedListener(l, daemon.AdminConnections)) })
	return a
}

// close ends the answers. On nil it does nothing.
func (a *answering) close() {
	if a != nil {
		_ = a.server.Close()
		a.serving.Wait()
	}
}
