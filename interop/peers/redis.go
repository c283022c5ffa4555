//go:build unix

package peers

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strconv"
	"time"
)

// A Redis is a running redis-server that syncs every write before it answers.
type Redis struct {
	dir  string
	port int
	proc *Process
}

// NeedRedis reports that redis-server is not installed, as a [MissingError], or nil.
func NeedRedis() error {
	_, err := needCommand("redis-server", "redis-server")
	return err
}

// StartRedis starts redis-server with its data and log in dir and returns when it
// answers. Its append-only file is on, with appendfsync always, which is not its
// default: the default loses the last second, and with it locks that were granted.
func StartRedis(ctx context.Context, dir string) (*Redis, error) {
	if err := NeedRedis(); err != nil {
		return nil, err
	}
	var last error
	for range 3 { // somebody else may take the port before redis does
		ports, err := freePorts(1)
		if err != nil {
			return nil, err
		}
		r := &Redis{dir: dir, port: ports[0]}
		if last = r.start(ctx); last == nil || ctx.Err() != nil {
			return r, last
		}
	}
	return nil, last
}

func (r *Redis) start(ctx context.Context) error {
	log, err := openLog(r.dir)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(r.port), "--bind", "127.0.0.1", "--dir", r.dir,
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no")
	cmd.Stdout, cmd.Stderr = log, log
	if r.proc, err = Start(cmd); err != nil {
		return err
	}
	for {
		err := r.ping(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-r.proc.done:
			return fmt.Errorf("peers: redis-server on %s ended: %v", r.Addr(), r.proc.err)
		case <-ctx.Done():
			r.Close()
			return fmt.Errorf("peers: redis-server on %s is not ready: %w (last: %v)", r.Addr(), context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond): // it has no event to wait for
		}
	}
}

func (r *Redis) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", r.Addr())
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)
	if _, err := io.WriteString(conn, "PING\r\n"); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "+PONG\r\n" {
		err = fmt.Errorf("peers: redis-server answers %q", line)
	}
	return err
}

// Addr is the address it listens on.
func (r *Redis) Addr() string { return loopback(r.port) }

// URL is redis://host:port.
func (r *Redis) URL() string { return "redis://" + r.Addr() }

// Pid is the process id.
func (r *Redis) Pid() int { return r.proc.Pid() }

// WriteLogs writes the end of its log to w, for a test that failed.
func (r *Redis) WriteLogs(w io.Writer) {
	fmt.Fprintf(w, "--- redis-server, %s\n", r.Addr())
	tail(w, r.dir)
}

// Close kills it. Its files stay where they are.
func (r *Redis) Close() error { return r.proc.Kill() }
