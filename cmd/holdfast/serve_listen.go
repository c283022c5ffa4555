package main

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// A listener is an address of serve, with its protocol.
type listener struct {
	net.Listener
	protocol string // as serve prints it: tcp, tls or unix
}

// checkAddresses refuses addresses that other machines can reach, unless clients must authenticate or
// --insecure is given. Every client that connects can acquire every lock.
func (f *serveFlags) checkAddresses() error {
	for _, addr := range f.listen {
		open, err := f.reachable("listen", addr)
		if err != nil {
			return err
		}
		if open && !f.insecure {
			return usage("listen on 127.0.0.1, use --listen-tls with --tls-client-ca, or add --insecure if you trust the network",
				"%s %s: other machines can reach this address, and it has no encryption", f.from.name("listen"), addr)
		}
	}
	known := f.tls.clientAuth.orDefault(f.tls.clientCA) == "need" || len(f.auth.required) > 0
	for _, addr := range f.tls.listen {
		open, err := f.reachable("listen-tls", addr)
		if err != nil {
			return err
		}
		if open && !f.insecure && !known {
			return usage("ask clients for certificates with --tls-client-ca FILE or for a login with --auth-required, or add --insecure if you trust the network",
				"%s %s: other machines can reach this address, and TLS alone admits every client: each can acquire every lock", f.from.name("listen-tls"), addr)
		}
	}
	if f.admin == "" {
		return nil
	}
	open, err := f.reachable("admin", f.admin)
	if err == nil && open && !f.insecure {
		err = usage("listen on 127.0.0.1, or add --insecure if you trust the network",
			"%s %s: other machines can reach this address, and it shows the memory of this process", f.from.name("admin"), f.admin)
	}
	return err
}

// reachable reports whether other machines can connect to addr.
func (f *serveFlags) reachable(flag, addr string) (bool, error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return false, usage("give an address such as 127.0.0.1:2181", "%s %s: %w", f.from.name(flag), addr, err)
	}
	return tcp.IP == nil || !tcp.IP.IsLoopback(), nil
}

// listeners opens the addresses of --listen, --listen-tls and --unix. If it fails, it also returns the
// listeners that it has opened.
func (f *serveFlags) listeners(keys *keyring) ([]listener, error) {
	var all []listener
	for _, addr := range f.listen {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return all, fmt.Errorf("%s: %w", f.from.name("listen"), err)
		}
		all = append(all, listener{l, "tcp"})
	}
	for _, addr := range f.tls.listen {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return all, fmt.Errorf("%s: %w", f.from.name("listen-tls"), err)
		}
		all = append(all, listener{tls.NewListener(l, keys.serverConfig()), "tls"})
	}
	for _, path := range f.unix {
		l, err := listenUnix(path)
		if err != nil {
			return all, fmt.Errorf("%s: %w", f.from.name("unix"), err)
		}
		all = append(all, listener{l, "unix"})
	}
	return all, nil
}

// listenUnix listens on a Unix socket, to which only this user may connect. It replaces a stale socket
// of a killed server, and no other file.
func listenUnix(path string) (net.Listener, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSocket {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			return nil, fmt.Errorf("%s: another server listens there", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}
