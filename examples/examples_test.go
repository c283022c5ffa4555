//go:build unix

package examples

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/zkserver"
)

// A process is a running example.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

// start starts an example.
func start(t *testing.T, program, server string, args ...string) *process {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "HOLDFAST_SERVER="+server)
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		in.CloseWithError(cmd.Wait())
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_, _ = io.Copy(io.Discard, out)
		<-ended
	})
	return &process{t, cmd, bufio.NewScanner(out)}
}

// want reads lines until one matches.
func (p *process) want(pattern string) string {
	p.t.Helper()
	var all []string
	for p.lines.Scan() {
		all = append(all, p.lines.Text())
		if regexp.MustCompile("^" + pattern + "$").MatchString(p.lines.Text()) {
			return p.lines.Text()
		}
	}
	p.t.Fatalf("no line %q in\n%s\nthe end: %v", pattern, strings.Join(all, "\n"), p.lines.Err())
	return ""
}

// interrupt ends the process as ctrl-C does.
func (p *process) interrupt() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(os.Interrupt); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits until the process has ended with code 0.
func (p *process) ends() {
	p.t.Helper()
	for p.lines.Scan() {
	}
	if err := p.lines.Err(); err != nil {
		p.t.Errorf("%s: %v", p.cmd.Path, err)
	}
}

// serve returns the address of a server in memory.
func serve(t *testing.T) string {
	t.Helper()
	server, err := zkserver.Open(zkserver.Config{Memory: zkserver.NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
	return "zk://" + l.Addr().String()
}

// Each example runs, and does what its comment says.
func TestExamplesRun(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", dir+"/", "./...").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	t.Run("cron", func(t *testing.T) {
		server := serve(t)
		a := start(t, at("cron"), server, "-every", "1h")
		a.want("done here")
		b := start(t, at("cron"), server, "-every", "1h")
		b.want(`done by pid \d+`)
		for _, p := range []*process{a, b} {
			p.interrupt()
			p.ends()
		}
	})
	t.Run("leader", func(t *testing.T) {
		server := serve(t)
		a := start(t, at("leader"), server)
		a.want(`leading, term \d+`)
		b := start(t, at("leader"), server)
		b.want(`candidate pid \d+`)
		a.interrupt()
		a.want("not leading any more")
		a.ends()
		b.want(`leading, term \d+`)
		b.interrupt()
		b.ends()
	})
	t.Run("fenced", func(t *testing.T) {
		p := start(t, at("fenced"), serve(t))
		p.want("stock 9")
		p.want("stock 8")
		p.want("refused: fence: stale token: .*")
		p.ends()
	})
	t.Run("workers", func(t *testing.T) {
		server := serve(t)
		a := start(t, at("workers"), server, "-n", "2")
		a.want("worker 0")
		b := start(t, at("workers"), server, "-n", "2")
		b.want("worker 1")
		c := start(t, at("workers"), server, "-n", "2")
		c.want("waiting")
		a.interrupt()
		a.ends()
		c.want("worker 0")
		for _, p := range []*process{b, c} {
			p.interrupt()
			p.ends()
		}
	})
}
