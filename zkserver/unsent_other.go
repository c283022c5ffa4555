//go:build !linux

package zkserver

import "net"

// limitUnsent limits unsent bytes where the kernel would take megabytes of them.
func limitUnsent(net.Conn) {}
