//go:build unix

package zkserver

import (
	"net"
	"syscall"
)

// A nowWriter writes to a socket without waiting.
type nowWriter struct {
	raw     syscall.RawConn
	bytes   []byte
	written int
	write   func(fd uintptr)
}

// writerNow returns a function that writes to nc as much as nc takes without waiting, and returns
// how much that was. It returns nil if nc is neither a plain socket nor a connection over memory.
// The function is not safe for concurrent use, nor for use beside the Write of nc.
func writerNow(nc net.Conn) func([]byte) int {
	if m, ok := nc.(*memoryConn); ok {
		return m.out.writeNow
	}
	var socket syscall.Conn // no other type that has SyscallConn: its Write may do more than write
	switch nc := nc.(type) {
	case *net.TCPConn:
		socket = nc
	case *net.UnixConn:
		socket = nc
	default:
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	w := &nowWriter{raw: raw}
	w.write = func(fd uintptr) { w.written, _ = syscall.Write(int(fd), w.bytes) } // does not block: package net opens sockets so
	return w.now
}

// now returns how many bytes of b the socket has taken. If there is an error, the next Write
// returns it.
func (w *nowWriter) now(b []byte) int {
	w.bytes, w.written = b, 0
	err := w.raw.Control(w.write) // raw.Write would obey the deadline of the latest Write
	w.bytes = nil
	if err != nil || w.written < 0 {
		return 0
	}
	return w.written
}
