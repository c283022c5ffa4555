package main

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// A listener knows what its clients must speak.
type listener struct {
	net.Listener
	protocol string // as serve prints it: tcp, tls or unix
}

// checkAddresses refuses to be reached by other machines unless clients must say who they
// are, or that is asked for: whoever connects can take every lock.
func (f *serveFlags) checkAddresses() error {
	for _, addr := range f.listen {
		open, err := f.reachable("listen", addr)
		if err != nil {
			return err
		}
		if open && !f.insecure {
			return usage("listen on 127.0.0.1, use --listen-tls with --tls-client-ca, or add --insecure if the network is trusted",
				"%s %s can be reached from other machines, without encryption", f.from.name("listen"), addr)
		}
	}
	known := f.tls.clientAuth.orDefault(f.tls.clientCA) == "need" || len(f.auth.required) > 0
	for _, addr := range f.tls.listen {
		open, err := f.reachable("listen-tls", addr)
		if err != nil {
			return err
		}
		if open && !f.insecure && !known {
			return usage("let clients show certificates with --tls-client-ca FILE or authenticate with --auth-required, or add --insecure if the network is trusted",
				"%s %s can be reached from other machines, and TLS alone keeps nobody out: anybody can take every lock", f.from.name("listen-tls"), addr)
		}
	}
	if f.admin == "" {
		return nil
	}
	open, err := f.reachable("admin", f.admin)
	if err == nil && open && !f.insecure {
		err = usage("listen on 127.0.0.1, or add --insecure if the network is trusted",
			"%s %s can be reached from other machines, and shows whoever asks what this process has in memory", f.from.name("admin"), f.admin)
	}
	return err
}

// reachable reports whether other machines can connect to addr.
func (f *serveFlags) reachable(flag, addr string) (bool, error) {
	tcp, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return false, usage("want an address such as 127.0.0.1:2181", "%s %s: %w", f.from.name(flag), addr, err)
	}
	return tcp.IP == nil || !tcp.IP.IsLoopback(), nil
}

// listeners opens what --listen, --listen-tls and --unix name. When it fails it returns
// also what it has opened.
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

// listenUnix replaces a socket on which nobody listens, which a server that was killed has
// left, and nothing else. Only our user may connect.
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
