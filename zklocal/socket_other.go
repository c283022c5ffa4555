//go:build !linux

package zklocal

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
)

func listenLong(dir string) (*net.UnixListener, string, error) { return listenNoted(dir) }

// dialLong is never called for a socket that we have created: for a long path, there is a note.
func dialLong(_ context.Context, dir string) (net.Conn, error) {
	return nil, fmt.Errorf("%s: the path is too long for a socket address", filepath.Join(dir, socketName))
}
