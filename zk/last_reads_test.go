package zk

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// A refusingConn fails its writes once refuse is set, as a connection does that the server has closed. What the server
// sent before can still be read.
type refusingConn struct {
	net.Conn
	refuse *atomic.Bool
}

func (c refusingConn) Write(b []byte) (int, error) {
	if c.refuse.CompareAndSwap(true, false) {
		return 0, syscall.EPIPE
	}
	return c.Conn.Write(b)
}

// A server that stops answers the requests that it has taken, and closes the connection. Our next request fails before
// we have read those answers.
func TestAnswersThatArrivedBeforeAFailedWriteCount(t *testing.T) {
	for name, answers := range map[string]bool{"answered": true, "silent": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refuse atomic.Bool
				read := make(chan struct{})
				peers := dialPeers(t, func(p *peer) {
					p.accept(7, time.Hour)
					h, _ := p.request()
					<-read
					if !answers {
						p.hang()
					} else if !p.answer(h.Xid, 1, 0, &zkproto.Create2Response{Path: "/a"}) {
						t.Error("the client has not waited for the answer")
					}
				}, func(p *peer) { p.accept(7, time.Hour); p.serve() })
				c, err := Dial(t.Context(), Config{Servers: []string{"test:1"}, SessionTimeout: time.Hour, Lease: LeasePing,
					Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
						nc, err := peers(ctx, network, addr)
						return refusingConn{nc, &refuse}, err
					}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				s := mustSession(t, c)
				created, refused := make(chan error, 1), make(chan error, 1)
				go func() { _, _, err := s.Create(t.Context(), "/a", nil, Persistent); created <- err }()
				synctest.Wait() // the server has the request
				refuse.Store(true)
				began := time.Now()
				go func() { _, _, err := s.Exists(t.Context(), "/a"); refused <- err }()
				synctest.Wait() // the second request could not be written
				close(read)
				switch err := <-created; {
				case answers && err != nil:
					t.Errorf("the answered create: %v", err)
				case !answers && !errors.Is(err, ErrConnectionLoss):
					t.Errorf("the create without an answer: %v", err)
				}
				if err := <-refused; !errors.Is(err, ErrConnectionLoss) {
					t.Errorf("the request that was not written: %v", err)
				}
				if took := time.Since(began); took > 2*time.Second {
					t.Errorf("a connection that takes no requests was kept for %v", took)
				}
				if _, _, err := s.Exists(t.Context(), "/a"); err != nil {
					t.Errorf("the next connection: %v", err)
				}
			})
		})
	}
}
