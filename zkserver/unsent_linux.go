package zkserver

import (
	"net"

	"golang.org/x/sys/unix"
)

// maxUnsent is how many unsent bytes the kernel takes. By default it takes up to 4 MB for each
// client that does not read, so the server would produce answers that nobody reads. The window of a
// client that reads is not limited by it.
const maxUnsent = 128 << 10

// limitUnsent sets maxUnsent on a newly accepted connection. Connections other than TCP have no more
// room than that. It ignores an error, which is no fault of the client.
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
