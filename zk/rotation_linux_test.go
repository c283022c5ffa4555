package zk

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fakeDNS answers every question for an IPv4 address with addrs, and every other question with
// no records.
func fakeDNS(t *testing.T, addrs ...[4]byte) *net.Resolver {
	answer := func(query []byte) []byte {
		end := 12 // after the header: a question is a name, a type and a class
		for query[end] != 0 {
			end += 1 + int(query[end])
		}
		end += 5
		var found [][4]byte
		if query[end-3] == 1 { // type A
			found = addrs
		}
		reply := append([]byte(nil), query[:end]...)
		reply[2], reply[3] = 0x84, 0 // an authoritative answer
		binary.BigEndian.PutUint16(reply[6:], uint16(len(found)))
		clear(reply[8:12])
		for _, a := range found {
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name of the question
			reply = append(reply, a[:]...)
		}
		return reply
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe() // a stream, so each message is preceded by its length
		go func() {
			defer theirs.Close()
			for {
				var size [2]byte
				if _, err := io.ReadFull(theirs, size[:]); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(size[:]))
				if _, err := io.ReadFull(theirs, query); err != nil {
					return
				}
				reply := answer(query)
				if _, err := theirs.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
					return
				}
			}
		}()
		return ours, nil
	}}
}

// blackHole makes addr drop the packets of connecting clients: its backlog is full.
func blackHole(t *testing.T, addr [4]byte, port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: addr, Port: port}); err != nil {
		t.Skip(err) // the port is taken at this address
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	at := net.JoinHostPort(net.IP(addr[:]).String(), strconv.Itoa(port))
	for range 3 {
		nc, err := net.DialTimeout("tcp", at, 100*time.Millisecond)
		if err != nil {
			return
		}
		t.Cleanup(func() { nc.Close() })
	}
	t.Fatal("the backlog does not fill")
}

// The same over real sockets with the real resolver: one name, two dead addresses before the
// live one, and a session timeout of 4 s.
func TestNameWithTwoDeadAddressesConnects(t *testing.T) {
	addr := listenPeers(t, nil, serveSession)
	_, p, _ := strings.Cut(addr, ":")
	port, err := strconv.Atoi(p)
	if err != nil {
		t.Fatal(err)
	}
	dead := [][4]byte{{127, 0, 0, 2}, {127, 0, 0, 3}}
	for _, a := range dead {
		blackHole(t, a, port)
	}
	resolver := net.DefaultResolver
	net.DefaultResolver = fakeDNS(t, dead[0], dead[1], [4]byte{127, 0, 0, 1})
	defer func() { net.DefaultResolver = resolver }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := Dial(ctx, Config{Servers: []string{"zk.test:" + p}, SessionTimeout: 4 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}
