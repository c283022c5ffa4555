package zk

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// A refusingConn fails its next write with refusal, as a connection does that the server has closed. The bytes that the
// server sent before can still be read.
type refusingConn struct {
	net.Conn
	refusal *atomic.Pointer[error]
}

func (c refusingConn) Write(b []byte) (int, error) {
	if err := c.refusal.Swap(nil); err != nil {
		return 0, *err
	}
	return c.Conn.Write(b)
}

// A server that stops answers the requests that it has taken, and closes the connection. Our next request fails before
// we have read those answers.
func TestAnswersThatArrivedBeforeAFailedWriteCount(t *testing.T) {
	for _, tt := range []struct {
		name    string
		refusal error
		answers bool
		want    error // of the request that the server has
		within  time.Duration
	}{
		{"answered", syscall.EPIPE, true, nil, 0},
		{"silent", syscall.EPIPE, false, ErrConnectionLoss, lastReads},
		{"the session is over", errGone, false, ErrConnectionLoss, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refusal atomic.Pointer[error]
				read := make(chan struct{})
				c := dialThrough(t, time.Hour, func(nc net.Conn) net.Conn { return refusingConn{nc, &refusal} }, func(p *peer) {
					p.accept(7, time.Hour)
					h, _ := p.request()
					<-read
					if !tt.answers {
						p.hang()
					} else if !p.answer(h.Xid, 1, 0, &zkproto.Create2Response{Path: "/a"}) {
						t.Error("the client has not waited for the answer")
					}
				}, func(p *peer) { p.accept(7, time.Hour); p.serve() })
				s := mustSession(t, c)
				created, refused := make(chan error, 1), make(chan error, 1)
				go func() { _, _, err := s.Create(t.Context(), "/a", nil, Persistent); created <- err }()
				synctest.Wait() // the server has the request
				refusal.Store(&tt.refusal)
				began := time.Now()
				go func() { _, _, err := s.Exists(t.Context(), "/a"); refused <- err }()
				synctest.Wait() // the second request could not be written
				close(read)
				err := <-created
				if !errors.Is(err, tt.want) {
					t.Errorf("the request that the server has: %v; want %v", err, tt.want)
				}
				if err != nil && !strings.Contains(err.Error(), tt.refusal.Error()) {
					t.Errorf("%v does not tell why: %v", err, tt.refusal)
				}
				if over := context.Cause(s.Context()); (over == errGone) != (tt.refusal == errGone) {
					t.Errorf("the session's cause is %v", over)
				}
				if err := <-refused; err == nil {
					t.Error("the request that was not written has an answer")
				}
				if took := time.Since(began); took > tt.within {
					t.Errorf("the connection was kept for %v; want at most %v", took, tt.within)
				}
				if _, _, err := c.Exists(t.Context(), "/a"); err != nil {
					t.Errorf("the next connection: %v", err)
				}
			})
		})
	}
}
