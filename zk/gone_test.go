package zk

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zkproto"
)

// errGone is a connection's report that the server's sessions are gone for good.
var errGone = fmt.Errorf("the directory was removed: %w", ErrSessionExpired)

// A goneConn fails its reads with errGone once gone is closed, as if a packet had said so.
type goneConn struct {
	net.Conn
	gone <-chan struct{}
}

func (c goneConn) Read(b []byte) (int, error) {
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-c.gone:
			c.Conn.Close()
		case <-stop:
		}
	}()
	n, err := c.Conn.Read(b)
	select {
	case <-c.gone:
		return 0, errGone
	default:
		return n, err
	}
}

// The transport knows that the sessions have ended. So the session ends at once, with the transport's
// reason, and no server is asked.
func TestSessionEndsAtOnceWhenItsConnectionSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		var mu sync.Mutex
		var resumed []int64 // the sessions asked for, in order
		gone := make(chan struct{})
		c := dialThrough(t, timeout, func(nc net.Conn) net.Conn { return goneConn{nc, gone} }, func(p *peer) {
			req := p.accept(7, timeout)
			mu.Lock()
			resumed = append(resumed, req.SessionID)
			mu.Unlock()
			p.serve()
		}, func(p *peer) {
			req := p.accept(8, timeout)
			mu.Lock()
			resumed = append(resumed, req.SessionID)
			mu.Unlock()
			p.serve()
		})
		s := mustSession(t, c)
		_, _, w, err := s.ExistsW(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		first := gone
		gone = make(chan struct{}) // from now on the connections stay healthy
		close(first)
		mustEnd(t, s)
		if took := time.Since(began); took != 0 {
			t.Errorf("the session ended after %v; want at once", took)
		}
		if cause := context.Cause(s.Context()); cause != errGone {
			t.Errorf("the session's cause is %v; want %v", cause, errGone)
		}
		wantErr(t, (<-w.C).Err, errGone)
		if next := mustSession(t, c); next.ID() != 8 {
			t.Errorf("the client continued in session %d; want 8", next.ID())
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(resumed) != 2 || resumed[1] != 0 {
			t.Errorf("sessions asked for: %v; want two new ones", resumed)
		}
	})
}

// While a session is being resumed, a dial or a handshake can also report this. Where there is no
// session yet, the same error says nothing.
func TestSessionEndsAtOnceWhenADialSaysSo(t *testing.T) {
	const timeout = 10 * time.Second
	down := errors.New("down")
	for _, tt := range []struct {
		name   string
		broken func(ctx context.Context) (net.Conn, error)
	}{
		{"dial", func(context.Context) (net.Conn, error) { return nil, errGone }},
		{"handshake", func(context.Context) (net.Conn, error) {
			ours, theirs := net.Pipe()
			gone := make(chan struct{})
			go func() {
				defer theirs.Close()
				if _, err := zkproto.ReadFrame(theirs, nil, zkproto.MaxFrame); err != nil {
					t.Error(err)
				}
				close(gone)
			}()
			return goneConn{ours, gone}, nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cut := make(chan struct{})
				peers := dialPeers(t, func(p *peer) { p.accept(7, timeout); <-cut }, func(p *peer) {
					if req := p.accept(8, timeout); req.SessionID != 0 {
						t.Errorf("the client asked for session %d, which is over", req.SessionID)
					}
					p.serve()
				})
				dials := 0
				c, err := Dial(t.Context(), Config{Servers: []string{"test:1", "test:2"}, SessionTimeout: timeout, Lease: LeasePing,
					Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
						dials++
						switch dials {
						case 1:
							return nil, errGone // there is no session that this error could end
						case 3:
							return nil, down // an ordinary failure: the client tries the next server
						case 4:
							return tt.broken(ctx)
						}
						return peers(ctx, network, addr)
					}})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				s, began := mustSession(t, c), time.Now()
				close(cut)
				mustEnd(t, s)
				if took := time.Since(began); took > timeout/10 {
					t.Errorf("the session ended after %v; want at once", took)
				}
				wantErr(t, context.Cause(s.Context()), errGone)
				if next := mustSession(t, c); next.ID() != 8 {
					t.Errorf("the client continued in session %d; want 8", next.ID())
				}
				if dials != 5 {
					t.Errorf("%d dials; want 5", dials)
				}
			})
		})
	}
}
