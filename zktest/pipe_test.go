package zktest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// joined returns the two ends of a connection without a server.
func joined() (client, server net.Conn) {
	c := newNetwork().connect()
	// The bytes are not ZooKeeper's frames, so they pass unfiltered.
	c.client.filter, c.server.filter = c.client.out.write, c.server.out.write
	return c.client, c.server
}

func TestPipeWriterWaitsForReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := joined()
		sent := bytes.Repeat([]byte("0123456789abcdef"), pipeCapacity/4)
		go func() {
			a.Write(sent)
			a.Close()
		}()
		time.Sleep(time.Second) // the writer has filled the pipe
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("got %d bytes, %v; want the %d that were sent", len(got), err, len(sent))
		}
	})
}

func TestPipeDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := joined()
		defer a.Close()
		defer b.Close()
		start := time.Now()
		a.SetReadDeadline(start.Add(3 * time.Second))
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("read ended after %v with %v; want the deadline after 3s", time.Since(start), err)
		}
		a.SetReadDeadline(time.Time{})
		a.SetWriteDeadline(time.Now().Add(time.Second))
		if n, err := a.Write(make([]byte, pipeCapacity+1)); !errors.Is(err, os.ErrDeadlineExceeded) || n != pipeCapacity {
			t.Errorf("write ended after %d bytes with %v; want the deadline after %d", n, err, pipeCapacity)
		}
		if n, err := b.Read(make([]byte, 10)); n != 10 || err != nil {
			t.Errorf("the other end reads %d, %v; want 10 bytes", n, err)
		}
	})
}

func TestPipeEndsAsSocketsDo(t *testing.T) {
	a, b := joined()
	a.Write([]byte("bye"))
	a.(interface{ CloseWrite() error }).CloseWrite()
	if got, err := io.ReadAll(b); string(got) != "bye" || err != nil {
		t.Errorf("after CloseWrite the peer reads %q, %v; want bye and the end", got, err)
	}
	b.Write([]byte("you too"))
	b.Close()
	if got, err := io.ReadAll(a); string(got) != "you too" || err != nil {
		t.Errorf("after its CloseWrite an end reads %q, %v; want the bytes that the peer sent", got, err)
	}
	if _, err := a.Write([]byte("x")); err == nil {
		t.Error("write after CloseWrite succeeded")
	}
	a.Close()
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: %v; want net.ErrClosed", err)
	}
}

func TestDialHonoursContext(t *testing.T) {
	n := newNetwork()
	n.listen() // nobody accepts
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("changed my mind")
	cancel(why)
	if _, err := n.dial(ctx, "tcp", "x:1"); !errors.Is(err, why) {
		t.Errorf("dial: %v; want %v", err, why)
	}
	if len(n.conns) != 0 {
		t.Errorf("%d connections left behind; want none", len(n.conns))
	}
}
