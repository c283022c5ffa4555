package daemon

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"
)

// A pipeListener accepts the connections that are sent to it.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	nc, open := <-l
	if !open {
		return nil, net.ErrClosed
	}
	return nc, nil
}
func (l pipeListener) Close() error { close(l); return nil }
func (pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "test"} }

func TestABoundedListenerLeavesFurtherConnectionsWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := make(pipeListener, 10)
		for range cap(inner) {
			nc, _ := net.Pipe()
			inner <- nc
		}
		l := newBoundedListener(inner, 3)
		accepted, ended := make(chan net.Conn, cap(inner)), make(chan error, 1)
		go func() {
			for {
				nc, err := l.Accept()
				if err != nil {
					ended <- err
					return
				}
				accepted <- nc
			}
		}()
		for want := 3; ; want++ {
			synctest.Wait()
			if got := len(accepted) + want - 3; got != want {
				t.Fatalf("%d connections are accepted; want %d", got, want)
			}
			if want == 6 {
				break
			}
			nc := <-accepted
			nc.Close()
			nc.Close() // counts once
		}
		l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("Accept: %v; want %v", err, net.ErrClosed)
		}
	})
}
