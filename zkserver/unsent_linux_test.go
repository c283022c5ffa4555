package zkserver

import (
	"net"
	"testing"
	"time"
)

// For a client that does not read, the kernel buffers little more than it can send.
func TestUnsentIsLimited(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.(*net.TCPConn).SetReadBuffer(1 << 16)
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.accept(nc)
	nc.SetWriteDeadline(time.Now().Add(time.Second))
	n, err := nc.Write(make([]byte, 16<<20))
	if err == nil || n > 1<<20 {
		t.Errorf("the kernel took %d bytes, %v", n, err)
	}
}
