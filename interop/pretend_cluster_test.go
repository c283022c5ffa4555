//go:build unix

package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/interop/peers"
)

// Pretenders stand in for Apache's zkServer.sh in the tests of other clients, which use it to
// start servers and ensembles, and stop them with SIGKILL. A pretended ensemble is one
// `holdfast serve` behind one relay per server. While the majority of them is stopped, holdfast
// serve is killed, and connections are refused.
//
// Each zkServer.sh is a process that only holds a connection to the test, which runs the
// relays. The end of the process is the end of that connection.
type pretenders struct {
	bin, dir string
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex // guards the field below
	clusters map[string]*pretendCluster
}

// startPretenders returns the directory of zkServer.sh.
func startPretenders(t *testing.T) string {
	p := &pretenders{bin: holdfastBin(t), dir: t.TempDir(), clusters: make(map[string]*pretendCluster)}
	// Not below the test's directory: a socket's path must be short.
	socketDir, err := os.MkdirTemp("", "pretend")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(socketDir) })
	p.listener, err = net.Listen("unix", filepath.Join(socketDir, "s"))
	must(t, err)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.listener.Close()
		p.wg.Wait() // the programs that started the processes have killed them
		for _, c := range p.clusters {
			if t.Failed() && c.server != nil {
				var log strings.Builder
				c.server.WriteLogs(&log)
				t.Log(log.String())
			}
		}
	})
	self, err := os.Executable()
	must(t, err)
	script := fmt.Sprintf("#!/bin/sh\n%s='zkserver %s' exec '%s' \"$@\"\n", commandVar, p.listener.Addr(), self)
	must(t, os.WriteFile(filepath.Join(p.dir, "zkServer.sh"), []byte(script), 0o700))
	return p.dir
}

// pretendZooKeeper is the process behind `zkServer.sh start-foreground zoo.cfg`.
func pretendZooKeeper(socket string) error {
	if len(os.Args) != 3 || os.Args[1] != "start-foreground" {
		return fmt.Errorf("zkServer.sh %q: want start-foreground and a file", os.Args[1:])
	}
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(conn, os.Args[2]); err != nil {
		return err
	}
	why, err := io.ReadAll(conn) // until killed, or told the reason for a failure
	return errors.Join(errors.New(string(why)), err)
}

func (p *pretenders) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return // closed
		}
		p.wg.Go(func() {
			defer conn.Close()
			if err := p.serve(conn); err != nil {
				fmt.Fprintln(conn, err)
			}
		})
	}
}

// serve runs one server until it ends.
func (p *pretenders) serve(conn net.Conn) error {
	in := bufio.NewReader(conn)
	path, err := in.ReadString('\n')
	if err != nil {
		return err
	}
	c, port, err := p.find(strings.TrimSpace(path))
	if err != nil {
		return err
	}
	m, err := c.join(port)
	if err != nil {
		return err
	}
	in.ReadByte() // until the process is gone
	return c.leave(m)
}

// find reads a zoo.cfg.
func (p *pretenders) find(path string) (c *pretendCluster, port int, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, err
	}
	var servers []string
	settings := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		settings[name] = value
		if strings.HasPrefix(name, "server.") {
			servers = append(servers, value)
		}
	}
	if port, err = strconv.Atoi(settings["clientPort"]); err != nil {
		return nil, 0, fmt.Errorf("clientPort: %w", err)
	}
	key := strings.Join(servers, ",")
	if key == "" {
		key = settings["dataDir"]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clusters[key] == nil {
		p.clusters[key] = &pretendCluster{
			bin: p.bin, dir: filepath.Join(p.dir, strconv.Itoa(len(p.clusters))), tick: settings["tickTime"] + "ms",
			size: max(1, len(servers)), members: make(map[int]*pretendMember),
		}
	}
	return p.clusters[key], port, nil
}

type pretendCluster struct {
	bin, dir, tick string
	size           int
	target         atomic.Pointer[string] // where clients are sent; nil without a majority

	mu      sync.Mutex             // guards the fields below
	members map[int]*pretendMember // by port
	server  *peers.Holdfast        // nil until the first majority
}

// A pretendMember relays one port to the server.
type pretendMember struct {
	port     int
	listener net.Listener
	wg       sync.WaitGroup
	gone     chan struct{}

	mu     sync.Mutex // guards the fields below
	conns  map[net.Conn]struct{}
	closed bool
}

func (c *pretendCluster) join(port int) (*pretendMember, error) {
	c.mu.Lock()
	old := c.members[port]
	c.mu.Unlock()
	if old != nil {
		<-old.gone // its process has just been killed
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	m := &pretendMember{port: port, listener: l, gone: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	c.members[port] = m
	m.wg.Go(func() { m.accept(&c.target) })
	if len(c.members)*2 <= c.size || c.target.Load() != nil {
		return m, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stepTime)
	defer cancel()
	if c.server == nil {
		c.server, err = peers.StartHoldfast(ctx, c.bin, c.dir, "--tick", c.tick)
	} else {
		err = c.server.Restart(ctx)
	}
	if err != nil {
		delete(c.members, port)
		m.close()
		return nil, err
	}
	addr := c.server.Addr()
	c.target.Store(&addr)
	return m, nil
}

func (c *pretendCluster) leave(m *pretendMember) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.members, m.port)
	var err error
	if c.target.Load() != nil && len(c.members)*2 <= c.size {
		c.target.Store(nil)
		err = c.server.Kill() // this breaks all connections
	}
	m.close()
	return err
}

func (m *pretendMember) accept(target *atomic.Pointer[string]) {
	for {
		in, err := m.listener.Accept()
		if err != nil {
			return // closed
		}
		m.wg.Go(func() { m.relay(in, target) })
	}
}

func (m *pretendMember) relay(in net.Conn, target *atomic.Pointer[string]) {
	defer in.Close()
	addr := target.Load()
	if addr == nil {
		return
	}
	out, err := net.DialTimeout("tcp", *addr, 5*time.Second)
	if err != nil {
		return
	}
	defer out.Close()
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.conns[in], m.conns[out] = struct{}{}, struct{}{}
	m.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(out, in)
		out.Close()
		in.Close()
	}()
	io.Copy(in, out)
	out.Close()
	in.Close()
	<-done
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.conns, in)
	delete(m.conns, out)
}

func (m *pretendMember) close() {
	m.listener.Close()
	m.mu.Lock()
	m.closed = true
	for conn := range m.conns {
		conn.Close()
	}
	m.mu.Unlock()
	m.wg.Wait()
	close(m.gone)
}
