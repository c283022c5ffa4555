package zkserver

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
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
			t.Errorf("%v; the bytes are equal: %v", err, bytes.Equal(got, sent))
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
		t.Errorf("%q, %v; want the bytes written before the end", got, err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write to a closed peer: %v", err)
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

func TestMemoryConnWritesAreWhole(t *testing.T) {
	for range 100 { // in some rounds, writers meet
		a, b := memoryPipe()
		const size = 3 * streamRoom
		var writers sync.WaitGroup
		for _, letter := range []byte("abcd") {
			writers.Go(func() {
				if n, err := a.Write(bytes.Repeat([]byte{letter}, size)); n != size || err != nil {
					t.Error(n, err)
				}
			})
		}
		go func() {
			writers.Wait()
			a.Close()
		}()
		got, err := io.ReadAll(b)
		if err != nil || len(got) != 4*size {
			t.Fatal(len(got), err)
		}
		for piece := range slices.Chunk(got, size) {
			if !bytes.Equal(piece, bytes.Repeat(piece[:1], size)) {
				t.Fatal("the bytes of two writes are mixed")
			}
		}
		b.Close()
	}
}

// The server sets a deadline before each answer, so a deadline must not cost a timer.
func TestMemoryConnDeadlinesCostNoTimerEach(t *testing.T) {
	a, b := memoryPipe()
	defer a.Close()
	defer b.Close()
	if n := testing.AllocsPerRun(100, func() { a.SetWriteDeadline(time.Now().Add(time.Minute)) }); n >= 1 {
		t.Errorf("%v allocations per deadline", n)
	}
}

// A small read makes too little room to wake a writer.
func TestMemoryConnWakesAWriterForSubstantialRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memoryPipe()
		defer b.Close()
		defer a.Close()
		go a.Write(make([]byte, 2*streamRoom))
		for _, step := range []struct{ read, left int }{
			{0, streamRoom},
			{1000, streamRoom - 1000},
			{streamRoom/2 - 1001, streamRoom/2 + 1},
			{1, streamRoom}, // half of the buffer is free
			{streamRoom, streamRoom / 2},
			{streamRoom / 2, 0},
		} {
			if _, err := io.ReadFull(b, make([]byte, step.read)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			s := b.(*memoryConn).in
			s.mu.Lock()
			left := len(s.buf) - s.off
			s.mu.Unlock()
			if left != step.left {
				t.Errorf("after a read of %d bytes there are %d; want %d", step.read, left, step.left)
			}
		}
	})
}

// A connection over memory takes no file descriptor, but counts as a connection.
func TestConnectionsOverMemoryTakeNoFiles(t *testing.T) {
	inBubble(t, Config{Limits: Limits{Connections: 4}}, func(t *testing.T, s *Server, dial func() *rawClient) {
		s.mu.Lock()
		s.fileRoom = 2
		s.mu.Unlock()
		memory := func() *rawClient {
			nc, err := s.Connect()
			if err != nil {
				t.Fatal(err)
			}
			return newRaw(t, nc)
		}
		first := dial()
		first.connect(time.Minute, nil)
		dial().connect(time.Minute, nil)
		dial().closed()
		memory().connect(time.Minute, nil)
		memory().connect(time.Minute, nil)
		memory().closed()
		if n := s.Stats().Refused[LimitConnections]; n != 2 {
			t.Errorf("%d connections were refused; want 2", n)
		}
		first.nc.Close()
		synctest.Wait()
		dial().connect(time.Minute, nil)
		dial().closed()
	})
}

// A client in the server's process sees the same nodes as other clients, and is closed with them.
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
			t.Errorf("after the server has stopped: %v", err)
		}
	})
}

// overMemory returns a client on a connection over memory, which may be served inline.
func overMemory(t *testing.T, s *Server) *rawClient {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	return newRaw(t, nc)
}
