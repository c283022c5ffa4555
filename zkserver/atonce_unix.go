//go:build unix

package zkserver

import (
	"net"
	"syscall"
)

// rawOf is what bytes can be written to without waiting; nil for all but plain sockets: who
// wraps one may mean to see what is written.
func rawOf(nc net.Conn) syscall.RawConn {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		if raw, err := nc.(syscall.Conn).SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}

// writeNow returns how many bytes were taken. What is wrong with the connection, the next
// write will tell.
func writeNow(raw syscall.RawConn, b []byte) (n int) {
	raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), b)
		return true
	})
	return max(n, 0)
}
