//go:build unix

package daemon

import (
	"errors"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A shortListener fails its first Accepts for lack of memory.
type shortListener struct {
	pipeListener
	errs []error
}

func (l *shortListener) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: os.NewSyscallError("accept4", err)}
	}
	return l.pipeListener.Accept()
}

func TestABoundedListenerWaitsForMemoryAndFiles(t *testing.T) {
	for _, test := range []struct {
		name   string
		errs   []error
		closed bool // closed during the wait
		want   error
	}{
		{"files", slices.Repeat([]error{syscall.EMFILE}, 20), false, nil},
		{"buffers", []error{syscall.ENOBUFS}, false, nil},
		{"memory", slices.Repeat([]error{syscall.ENOMEM}, 20), false, nil},
		{"the listener is closed meanwhile", slices.Repeat([]error{syscall.ENOMEM}, 20), true, net.ErrClosed},
		{"another error", []error{syscall.EINVAL}, false, syscall.EINVAL},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				inner := &shortListener{make(pipeListener, 1), test.errs}
				nc, other := net.Pipe()
				defer other.Close()
				inner.pipeListener <- nc
				l := newBoundedListener(inner, 1)
				if test.closed {
					time.AfterFunc(time.Second, func() { l.Close() })
				} else {
					defer l.Close()
				}
				began := time.Now()
				got, err := l.Accept()
				if !errors.Is(err, test.want) {
					t.Fatalf("Accept: %v; want %v", err, test.want)
				}
				if took := time.Since(began); took > 30*time.Second || test.closed && took > time.Second {
					t.Errorf("Accept has taken %v", took)
				}
				if err == nil {
					got.Close()
				}
			})
		})
	}
}
