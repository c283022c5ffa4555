//go:build unix

package zkserver

import (
	"net"
	"syscall"
)

// A nowWriter writes to a socket without waiting. It is not safe for concurrent use, nor beside
// the connection's Write.
type nowWriter struct {
	raw     syscall.RawConn
	bytes   []byte
	written int
	write   func(fd uintptr)
}

// newNowWriter returns nil if nc is not a plain socket.
func newNowWriter(nc net.Conn) *nowWriter {
	socket, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	w := &nowWriter{raw: raw}
	w.write = func(fd uintptr) { w.written, _ = syscall.Write(int(fd), w.bytes) } // not blocking: package net has it so
	return w
}

// now returns how many bytes of b the socket has taken. An error is for the next Write to find.
func (w *nowWriter) now(b []byte) int {
	w.bytes, w.written = b, 0
	err := w.raw.Control(w.write) // and not Write, which heeds the deadline of the latest Write
	w.bytes = nil
	if err != nil || w.written < 0 {
		return 0
	}
	return w.written
}
