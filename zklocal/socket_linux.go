package zklocal

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

// listenLong binds "socket" in a directory whose path is too long for an address.
func listenLong(dir string) (*net.UnixListener, string, error) {
	f, addr, err := shortAddress(dir)
	if err != nil {
		return nil, "", err
	}
	defer f.Close()
	if addr == "" {
		return listenNoted(dir)
	}
	l, err := listenUnix(addr)
	return l, filepath.Join(dir, socketName), err
}

func dialLong(ctx context.Context, dir string) (net.Conn, error) {
	f, addr, err := shortAddress(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if addr == "" {
		return nil, fmt.Errorf("%s: the path is too long for a socket address, and /proc, which would help, is not mounted here",
			filepath.Join(dir, socketName))
	}
	return dialUnix(ctx, addr)
}

// shortAddress opens dir and returns an address of its socket, which is valid while the file is
// open. It returns "" if /proc is not mounted.
func shortAddress(dir string) (*os.File, string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, "", err
	}
	link := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	if _, err := os.Lstat(link); err != nil {
		return f, "", nil
	}
	return f, link + "/" + socketName, nil
}
