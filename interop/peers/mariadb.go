//go:build unix

package peers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Debian's mariadb-server-core has the server alone, without a daemon and without the tools.
const (
	mariadbd       = "/usr/sbin/mariadbd"
	mariadbPackage = "mariadb-server-core"
)

// A MariaDB is a running server that listens on a Unix socket only.
type MariaDB struct {
	dir  string
	proc *Process
}

// StartMariaDB starts a server with its data in a new directory, which Close removes. The server has no
// system tables, and so no users: everybody who can enter the directory may do everything. It has one
// database, named test. Without MariaDB the error is a [MissingError].
func StartMariaDB(ctx context.Context) (_ *MariaDB, err error) {
	bin, err := needFile(mariadbd, mariadbPackage)
	if err != nil {
		return nil, err
	}
	// Not below the directory of the run: the socket's path must be short.
	dir, err := os.MkdirTemp("", "holdfast-mariadb-")
	if err != nil {
		return nil, err
	}
	m := &MariaDB{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(filepath.Join(data, "test"), 0o700); err != nil { // a directory is a database
		return nil, err
	}
	log, err := openLog(dir)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own copy
	args := []string{"--no-defaults", "--datadir=" + data, "--tmpdir=" + dir, "--socket=" + m.socket(), "--pid-file=" + filepath.Join(dir, "pid"),
		"--skip-grant-tables", "--skip-networking", "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--innodb-use-native-aio=0"}
	if os.Getuid() == 0 {
		args = append(args, "--user=root") // it refuses root unless it is told so
	}
	cmd := exec.Command(bin, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	if m.proc, err = Start(cmd); err != nil {
		return nil, err
	}
	return m, m.awaitReady(ctx)
}

// awaitReady returns when the server greets clients. There is no event to wait for.
func (m *MariaDB) awaitReady(ctx context.Context) error {
	for {
		err := m.greets()
		if err == nil {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-m.proc.Done():
			return fmt.Errorf("peers: mariadbd ended: %v", m.proc.Err())
		case <-ctx.Done():
			return fmt.Errorf("peers: mariadbd is not ready: %w (%w)", context.Cause(ctx), err)
		}
	}
}

// greets connects and looks whether the server's first packet is a handshake of protocol 10.
func (m *MariaDB) greets() error {
	c, err := net.Dial("unix", m.socket())
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	var head [5]byte // three of the length, a sequence number, and the protocol's version
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return err
	}
	if head[4] != 10 {
		return fmt.Errorf("it greets with %q", head)
	}
	return nil
}

func (m *MariaDB) socket() string { return filepath.Join(m.dir, "socket") }

// URL is what the driver is to be opened with.
func (m *MariaDB) URL() string { return "root@unix(" + m.socket() + ")/test" }

// WriteLogs writes the end of the log to w.
func (m *MariaDB) WriteLogs(w io.Writer) {
	fmt.Fprintln(w, "--- MariaDB")
	tail(w, m.dir)
}

// Close ends the server and removes its files.
func (m *MariaDB) Close() error {
	return errors.Join(m.proc.Kill(), os.RemoveAll(m.dir))
}
