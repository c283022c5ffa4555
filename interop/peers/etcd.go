//go:build unix

package peers

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// An Etcd is a running etcd server of one member.
type Etcd struct {
	dir  string
	addr string
	proc *Process
}

// NeedEtcd reports that etcd is not installed, as a [MissingError], or nil.
func NeedEtcd() error {
	_, err := needCommand("etcd", "etcd-server")
	return err
}

// StartEtcd starts one etcd with its data and log in dir and returns when it is
// healthy. It syncs every commit, which is its default.
func StartEtcd(ctx context.Context, dir string) (*Etcd, error) {
	if err := NeedEtcd(); err != nil {
		return nil, err
	}
	var last error
	for range 3 { // somebody else may take a port before etcd does
		ports, err := freePorts(2)
		if err != nil {
			return nil, err
		}
		e := &Etcd{dir: dir, addr: loopback(ports[0])}
		if last = e.start(ctx, loopback(ports[1])); last == nil || ctx.Err() != nil {
			return e, last
		}
	}
	return nil, last
}

func (e *Etcd) start(ctx context.Context, peerAddr string) error {
	data := filepath.Join(e.dir, "data")
	if err := os.RemoveAll(data); err != nil { // what an attempt before has left names other ports
		return err
	}
	log, err := openLog(e.dir)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	client, peer := "http://"+e.addr, "http://"+peerAddr
	cmd := exec.Command("etcd", "--name", "one", "--data-dir", data,
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", "one="+peer, "--logger", "zap", "--log-level", "warn")
	cmd.Stdout, cmd.Stderr = log, log
	if e.proc, err = Start(cmd); err != nil {
		return err
	}
	if err := e.awaitHealth(ctx); err != nil {
		e.Close()
		return err
	}
	return nil
}

func (e *Etcd) awaitHealth(ctx context.Context) error {
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.addr+"/health", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-e.proc.done:
			return fmt.Errorf("peers: etcd on %s ended: %v", e.addr, e.proc.err)
		case <-ctx.Done():
			return fmt.Errorf("peers: etcd on %s is not healthy: %w", e.addr, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond): // it has no event to wait for
		}
	}
}

// Addr is the address it serves clients on.
func (e *Etcd) Addr() string { return e.addr }

// URL is http://host:port.
func (e *Etcd) URL() string { return "http://" + e.addr }

// Pid is the process id.
func (e *Etcd) Pid() int { return e.proc.Pid() }

// WriteLogs writes the end of its log to w, for a test that failed.
func (e *Etcd) WriteLogs(w io.Writer) {
	fmt.Fprintf(w, "--- etcd, %s\n", e.addr)
	tail(w, e.dir)
}

// Close kills it. Its files stay where they are.
func (e *Etcd) Close() error { return e.proc.Kill() }
