//go:build !unix

package zkserver

import "net"

// writerNow returns a function that writes to nc as much as nc takes without waiting, and returns
// how much that was. It returns nil if nc is not a connection over memory.
func writerNow(nc net.Conn) func([]byte) int {
	if m, ok := nc.(*memoryConn); ok {
		return m.out.writeNow
	}
	return nil
}
