package zkserver

import (
	"net"

	"golang.org/x/sys/unix"
)

// maxUnsent is how many bytes the kernel takes that it cannot send yet. By default that is
// up to 4 MB for each client that does not read: it asks once, and the processor is at work
// with answers that nobody wants. The window of who reads is not limited by it.
const maxUnsent = 128 << 10

// limitUnsent is for a connection that has just been accepted; what is not TCP has no more
// room than that. An error is not one of the client: it is served all the same.
func limitUnsent(nc net.Conn) {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	raw.Control(func(fd uintptr) {
		unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
	})
}
