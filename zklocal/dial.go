package zklocal

import (
	"context"
	"net"
)

// DialHost connects to the process that hosts dir. Unlike the Dial function of [Store.Config], it neither
// creates the directory nor starts a host, and it fails if there is none. It is for programs that must not
// leave a trace, such as the completion of a shell.
func DialHost(ctx context.Context, dir string) (net.Conn, error) { return dialSocket(ctx, dir) }
