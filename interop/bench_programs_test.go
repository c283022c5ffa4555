//go:build linux

package interop

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"time"

	"holdfast/interop/peers"
)

// productionJVM undoes what the tests' JVMs do to stay small. Of two flags that
// contradict each other, the JVM takes the last.
var productionJVM = []string{"-Xmx1000m", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-XX:TieredStopAtLevel=4"}

// A program is a contestant that is a process of its own: java/BenchCurator.java or
// py/bench_kazoo.py, which tell what it is asked and what it answers. For one goroutine
// at a time.
type program struct {
	url     string
	process *peers.Process
	stdin   io.Writer
	lines   chan string  // of its standard output
	stderr  bytes.Buffer // for who has seen it end
}

// startBenchCurator needs benchApache to run.
func startBenchCurator(ctx context.Context, _ string) (*program, error) {
	if err := peers.NeedCurator(); err != nil {
		return nil, err
	}
	classes, err := compileOnce()
	if err != nil {
		return nil, err
	}
	server := benchApache.peer
	cmd := peers.Curator(context.Background(), classes, "BenchCurator", server.Addrs()[0], fmt.Sprint(benchTimeout.Milliseconds()))
	cmd.Args = slices.Insert(cmd.Args, slices.Index(cmd.Args, "-cp"), productionJVM...)
	return startProgram(ctx, cmd, server.URL())
}

// startBenchKazoo needs benchApache to run.
func startBenchKazoo(ctx context.Context, _ string) (*program, error) {
	if err := peers.NeedKazoo(); err != nil {
		return nil, err
	}
	server := benchApache.peer
	return startProgram(ctx, peers.Kazoo(context.Background(), "py/bench_kazoo.py", server.Addrs()[0], fmt.Sprint(benchTimeout.Seconds())), server.URL())
}

// startProgram returns when the program is connected.
func startProgram(ctx context.Context, cmd *exec.Cmd, url string) (*program, error) {
	p := &program{url: url, lines: make(chan string, 1)}
	cmd.Stderr = &p.stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	if p.process, err = peers.Start(cmd); err != nil {
		return nil, err
	}
	// It ends with the process. One line answers one of ours, so one is all that is
	// ever on its way.
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	line, err := p.answer(ctx)
	if err == nil && line != "ready" {
		err = fmt.Errorf("it says %q; want ready", line)
	}
	if err != nil {
		p.Close()
		return nil, fmt.Errorf("%s: %w\n%s", cmd.Args, err, &p.stderr)
	}
	return p, nil
}

// URL is that of the server it talks to.
func (p *program) URL() string { return p.url }

// WriteLogs writes what it has printed to its standard error, once it has ended.
func (p *program) WriteLogs(w io.Writer) {
	select {
	case <-p.process.Done():
		io.Copy(w, &p.stderr)
	default:
	}
}

// Close kills it.
func (p *program) Close() error { return p.process.Kill() }

func (p *program) answer(ctx context.Context) (string, error) {
	select {
	case line, ok := <-p.lines:
		if !ok {
			return "", fmt.Errorf("the program has ended: %w", io.ErrUnexpectedEOF)
		}
		if what, failed := strings.CutPrefix(line, "error "); failed {
			return "", fmt.Errorf("the program says: %s", what)
		}
		return line, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// ask sends one line and returns the answer.
func (p *program) ask(ctx context.Context, format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(p.stdin, format+"\n", args...); err != nil {
		return "", err
	}
	return p.answer(ctx)
}

// run puts the load on it.
func (p *program) run(ctx context.Context, l load, prefix string) (tally, error) {
	line, err := p.ask(ctx, "run %d %d %d %d %d %s", l.sessions, l.locks, l.workers, l.period.Milliseconds(), l.hold.Milliseconds(), prefix)
	if err != nil {
		return tally{}, err
	}
	var o tally
	var micros float64
	if _, err := fmt.Sscan(line, &o.cycles, &o.changes, &micros); err != nil {
		return tally{}, fmt.Errorf("the program answers %q: %w", line, err)
	}
	o.handoff = time.Duration(micros * 1e3)
	return o, nil
}
