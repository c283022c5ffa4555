package zkserver

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// listenerFunc is a listener whose Accept is a function.
type listenerFunc func() (net.Conn, error)

func (f listenerFunc) Accept() (net.Conn, error) { return f() }
func (listenerFunc) Close() error                { return nil }
func (listenerFunc) Addr() net.Addr              { return &net.UnixAddr{Name: "test"} }

// A lack of file descriptors must not end the service for connected clients.
func TestServeOutlivesTemporaryErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		client, server := net.Pipe()
		errGone := errors.New("interface removed")
		start, calls := time.Now(), 0
		err = s.Serve(listenerFunc(func() (net.Conn, error) {
			calls++
			switch {
			case calls <= 10:
				return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", shortages[calls%len(shortages)])}
			case calls == 11:
				return server, nil
			}
			newRaw(t, client).connect(10*time.Second, nil)
			return nil, errGone
		}))
		if !errors.Is(err, errGone) {
			t.Errorf("Serve: %v; want %v", err, errGone)
		}
		if n := s.Stats().Refused[LimitFiles]; n != 10 {
			t.Errorf("%d failures are counted; want 10", n)
		}
		if waited := time.Since(start); waited < time.Second || waited > 10*time.Second {
			t.Errorf("ten failures took %v; want a pause between them, and a short one", waited)
		}
	})
}
