//go:build unix

package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// Debian's package puts the programs of every version into a directory of its own.
const (
	postgresGlob    = "/usr/lib/postgresql/*/bin/postgres"
	postgresPackage = "postgresql"
	postgresPort    = 5432 // part of the socket's name; no TCP port is opened
)

// A PostgreSQL is a running server that listens on a Unix socket only.
type PostgreSQL struct {
	dir  string
	proc *Process
}

// StartPostgreSQL makes a cluster in a new directory, which Close removes, and starts a
// server on it. It refuses to run as root, so then it runs as the user postgres. Without
// PostgreSQL the error is a [MissingError].
func StartPostgreSQL(ctx context.Context) (_ *PostgreSQL, err error) {
	found, err := filepath.Glob(postgresGlob)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &MissingError{What: postgresGlob, Package: postgresPackage}
	}
	bin := filepath.Dir(found[len(found)-1])
	// Not below the directory of the run, which other users cannot enter.
	dir, err := os.MkdirTemp("", "holdfast-postgres-")
	if err != nil {
		return nil, err
	}
	p := &PostgreSQL{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	var as *syscall.Credential
	if os.Getuid() == 0 {
		if as, err = credential("postgres"); err != nil {
			return nil, err
		}
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	command := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(bin, name), args...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: as}
		return cmd
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "--auth=trust", "--username=holdfast", "--no-sync", "-D", data).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("peers: initdb: %w\n%s", err, out)
	}
	log, err := openLog(dir)
	if err != nil {
		return nil, err
	}
	defer log.Close() // the process has its own copy
	cmd := command("postgres", "-D", data, "-k", dir, "-c", "listen_addresses=", "-p", strconv.Itoa(postgresPort))
	cmd.Cancel = func() error { return nil } // it outlives ctx
	cmd.Stdout, cmd.Stderr = log, log
	if p.proc, err = Start(cmd); err != nil {
		return nil, err
	}
	return p, p.awaitReady(ctx)
}

// awaitReady returns when the server accepts connections. It answers them before that with
// an error, and says nothing that could be waited for but by asking.
func (p *PostgreSQL) awaitReady(ctx context.Context) error {
	for {
		ready, err := p.ask()
		if ready {
			return nil
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-p.proc.Done():
			var log bytes.Buffer
			tail(&log, p.dir)
			return fmt.Errorf("peers: postgres ended: %w\n%s", errExited, &log)
		case <-ctx.Done():
			return fmt.Errorf("peers: postgres is not ready: %w (%w)", context.Cause(ctx), err)
		}
	}
}

// ask sends a startup message (protocol 3.0) and looks whether the answer is one of
// authentication.
func (p *PostgreSQL) ask() (bool, error) {
	c, err := net.Dial("unix", filepath.Join(p.dir, ".s.PGSQL."+strconv.Itoa(postgresPort)))
	if err != nil {
		return false, err
	}
	defer c.Close()
	body := "\x00\x03\x00\x00user\x00holdfast\x00database\x00postgres\x00\x00"
	if _, err := c.Write(append([]byte{0, 0, 0, byte(len(body) + 4)}, body...)); err != nil {
		return false, err
	}
	var kind [1]byte
	if _, err := io.ReadFull(c, kind[:]); err != nil {
		return false, err
	}
	return kind[0] == 'R', fmt.Errorf("it answers with %q", kind)
}

func credential(name string) (*syscall.Credential, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// URL is what the driver is to be opened with.
func (p *PostgreSQL) URL() string {
	return fmt.Sprintf("host=%s port=%d user=holdfast dbname=postgres sslmode=disable", p.dir, postgresPort)
}

// WriteLogs writes the end of the log to w.
func (p *PostgreSQL) WriteLogs(w io.Writer) {
	fmt.Fprintln(w, "--- PostgreSQL")
	tail(w, p.dir)
}

// Close ends the server and removes its files.
func (p *PostgreSQL) Close() error {
	if p.proc != nil {
		// Not SIGKILL, which would leave its children and shared memory behind.
		err := p.proc.Signal(syscall.SIGQUIT)
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		<-p.proc.Done()
	}
	return os.RemoveAll(p.dir)
}
