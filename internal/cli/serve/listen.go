package serve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"holdfast/internal/cli/certs"
	"holdfast/internal/cli/term"
)

// A listener is an address of serve, with its protocol.
type listener struct {
	net.Listener
	protocol string // as serve prints it: tcp, tls or unix
}

// checkAddresses refuses addresses that other machines can reach, unless clients must authenticate or
// --insecure is given. Every client that connects can acquire every lock.
func (f *settings) checkAddresses() error {
	for _, addr := range f.listen {
		open, err := f.reachable("listen", addr)
		if err != nil {
			return err
		}
		if open && !f.insecure {
			return term.Usage("listen on 127.0.0.1, use --listen-tls with --tls-client-ca, or add --insecure if you trust the network",
				"%s %s: other machines can reach this address, and it has no encryption", f.from.Name("listen"), addr)
		}
	}
	known := f.tls.ClientAuth.OrDefault(f.tls.ClientCA) == "need" || len(f.auth.required) > 0
	for _, addr := range f.tls.Listen {
		open, err := f.reachable("listen-tls", addr)
		if err != nil {
			return err
		}
		if open && !f.insecure && !known {
			return term.Usage("ask clients for certificates with --tls-client-ca FILE or for a login with --auth-required, or add --insecure if you trust the network",
				"%s %s: other machines can reach this address, and TLS alone admits every client: each can acquire every lock", f.from.Name("listen-tls"), addr)
		}
	}
	if f.admin == "" {
		return nil
	}
	open, err := f.reachable("admin", f.admin)
	if err == nil && open && !f.insecure {
		err = term.Usage("listen on 127.0.0.1, or add --insecure if you trust the network",
			"%s %s: other machines can reach this address, and it shows the memory of this process", f.from.Name("admin"), f.admin)
	}
	return err
}

// reachable reports whether other machines can connect to addr.
func (f *settings) reachable(flag, addr string) (bool, error) {
	open, err := term.Reachable(addr)
	if err != nil {
		return false, term.Usage("give an address such as 127.0.0.1:2181", "%s %s: %w", f.from.Name(flag), addr, err)
	}
	return open, nil
}

// listeners opens the addresses of --listen, --listen-tls and --unix. If it fails, it also returns the
// listeners that it has opened.
func (f *settings) listeners(keys *certs.Keyring) ([]listener, error) {
	var all []listener
	for _, addr := range f.listen {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return all, fmt.Errorf("%s: %w", f.from.Name("listen"), err)
		}
		all = append(all, listener{l, "tcp"})
	}
	for _, addr := range f.tls.Listen {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return all, fmt.Errorf("%s: %w", f.from.Name("listen-tls"), err)
		}
		all = append(all, listener{tls.NewListener(l, keys.ServerConfig()), "tls"})
	}
	for _, path := range f.unix {
		l, err := listenUnix(path, f.gid)
		if err != nil {
			return all, fmt.Errorf("%s: %w", f.from.Name("unix"), err)
		}
		all = append(all, listener{l, "unix"})
	}
	return all, nil
}

// noGroup is the group of sockets that only this user may connect to.
const noGroup = -1

// checkGroup finds the number of the group of --unix-group.
func (f *settings) checkGroup() error {
	f.gid = noGroup
	if f.group == "" {
		return nil
	}
	if len(f.unix) == 0 {
		return term.Usage("give a socket with --unix PATH", "%s is without --unix: the socket in the directory is for this user alone", f.from.Name("unix-group"))
	}
	if id, err := strconv.ParseInt(f.group, 10, 32); err == nil && id >= 0 {
		f.gid = int(id)
		return nil
	}
	group, err := user.LookupGroup(f.group)
	if err == nil {
		f.gid, err = strconv.Atoi(group.Gid)
	}
	if err != nil {
		return term.Misconfigured("create the group (groupadd --system NAME), or give its number if it is not in /etc/group", "%s: %w", f.from.Name("unix-group"), err)
	}
	return nil
}

// listenUnix listens on a Unix socket, to which this user may connect, and the members of the group gid unless it
// is noGroup. It replaces a stale socket of a killed server, and no other file.
func listenUnix(path string, gid int) (net.Listener, error) {
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
		// Only this answer says that nobody listens. A busy server, or one of another user, is still there.
		if runtime.GOOS != "windows" && !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("%s: another server may listen there: %w", path, err)
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	l, err := listenPrivately(path)
	if err != nil {
		return nil, err
	}
	if err := admit(path, gid); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// admit sets who may connect to a socket, whatever the umask was. The group is set before the mode admits it, so
// members of the group that the socket has at first cannot connect in between.
func admit(socket string, gid int) error {
	if err := os.Chmod(socket, 0o600); err != nil || gid == noGroup {
		return err
	}
	// A sandbox can refuse the call, which is then needless: systemd's @privileged has chown.
	if ownGroup(socket) != gid {
		if err := os.Lchown(socket, -1, gid); err != nil {
			return fmt.Errorf("only root and members of the group %d can give it the socket: %w", gid, err)
		}
	}
	return os.Chmod(socket, 0o660)
}
