//go:build !linux

package zkserver

import "net"

// limitUnsent does something where the kernel would take megabytes of what it cannot send.
func limitUnsent(net.Conn) {}
