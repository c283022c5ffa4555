package zkserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func memoryPipe() (a, b net.Conn) {
	up, down := newStream(), newStream()
	return &memoryConn{in: up, out: down}, &memoryConn{in: down, out: up}
}

func TestMemoryConnCarriesBytesBothWays(t *testing.T) {
	a, b := memoryPipe()
	sent := make([]byte, 5*streamRoom+13)
	for i := range sent {
		sent[i] = byte(i * 7)
	}
	for _, ends := range [][2]net.Conn{{a, b}, {b, a}} {
		done := make(chan error)
		go func() {
			_, err := ends[0].Write(sent)
			done <- err
		}()
		got := make([]byte, len(sent))
		for at := 0; at < len(got); {
			n, err := ends[1].Read(got[at:min(at+1000, len(got))])
			if err != nil {
				t.Fatal(err)
			}
			at += n
		}
		if err := <-done; err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%v; equal: %v", err, bytes.Equal(got, sent))
		}
	}
}

func TestMemoryConnEnds(t *testing.T) {
	a, b := memoryPipe()
	if n, err := a.Write([]byte("last")); n != 4 || err != nil {
		t.Fatal(n, err)
	}
	a.Close()
	got, err := io.ReadAll(b)
	if string(got) != "last" || err != nil {
		t.Errorf("%q, %v; want what was written before the end", got, err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write to an end that is closed: %v", err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read from a closed end: %v", err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write from a closed end: %v", err)
	}
	a.Close()
	b.Close()
}

func TestMemoryConnDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memoryPipe()
		defer a.Close()
		defer b.Close()
		began := time.Now()
		after := func(d time.Duration) {
			t.Helper()
			if took := time.Since(began); took != d {
				t.Errorf("after %v; want %v", took, d)
			}
			began = time.Now()
		}
		a.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		after(time.Second)
		a.SetReadDeadline(time.Time{})
		go func() {
			time.Sleep(2 * time.Second)
			a.SetReadDeadline(time.Unix(1, 0))
		}()
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read: %v", err)
		}
		after(2 * time.Second)
		a.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := a.Write(make([]byte, streamRoom+1)); n != streamRoom || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write: %d, %v", n, err)
		}
		after(time.Second)
		a.SetWriteDeadline(time.Time{})
		go func() {
			time.Sleep(time.Second)
			b.Close()
		}()
		if _, err := a.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write: %v", err)
		}
		after(time.Second)
	})
}

// A client in the server's process sees the same nodes as others, and is cut off with them.
func TestConnectServesAClientOfThisProcess(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, s *Server, dial func() *rawClient) {
		nc, err := s.Connect()
		if err != nil {
			t.Fatal(err)
		}
		c := newRaw(t, nc)
		c.connect(10*time.Second, nil)
		c.create("/a", 0)
		other := dial()
		other.connect(10*time.Second, nil)
		if _, code := other.exists("/a", false); code != 0 {
			t.Error(code)
		}
		s.Close()
		c.closed()
		if _, err := s.Connect(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a server that has stopped: %v", err)
		}
	})
}
