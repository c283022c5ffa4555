//go:build unix

package peers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// BuildHoldfast builds the command holdfast and the programs beside it into dir, and returns the path of holdfast. It
// builds in the module that go.mod's replace points at, with that module's own
// dependencies.
func BuildHoldfast(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "holdfast").Output()
	if err != nil {
		return "", fmt.Errorf("peers: where is the module holdfast: %w", err)
	}
	bin := filepath.Join(dir, "holdfast")
	build := exec.CommandContext(ctx, "go", "build", "-o", dir, "./cmd/...")
	build.Dir = strings.TrimSpace(string(root))
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("peers: go build: %w\n%s", err, out)
	}
	return bin, nil
}

// A Holdfast is a running `holdfast serve`. Its methods are for one goroutine at
// a time.
type Holdfast struct {
	bin, dir string
	flags    []string
	addr     string
	tls      string   // what it has told of --listen-tls; "" without
	admin    string   // the same of --admin
	proc     *Process // nil while killed
}

// StartHoldfast starts `bin serve` on a free port with its data and log in dir
// and returns when it is ready. Flags are more of those of serve.
func StartHoldfast(ctx context.Context, bin, dir string, flags ...string) (*Holdfast, error) {
	for attempt := 1; ; attempt++ {
		ports, err := freePorts(1)
		if err != nil {
			return nil, err
		}
		h := &Holdfast{bin: bin, dir: dir, flags: flags, addr: loopback(ports[0])}
		err = h.Restart(ctx)
		if err != nil && attempt < 3 && strings.Contains(err.Error(), "address already in use") {
			continue
		}
		return h, err
	}
}

// Addr is the address it listens on; it stays the same over Restart.
func (h *Holdfast) Addr() string { return h.addr }

// URL is zk://host:port.
func (h *Holdfast) URL() string { return "zk://" + h.addr }

// SecureURL is zks://host:port of the first --listen-tls among the flags.
func (h *Holdfast) SecureURL() string { return "zks://" + h.tls }

// AdminURL is http://host:port of the flag --admin.
func (h *Holdfast) AdminURL() string { return "http://" + h.admin }

// Pid is the process id.
func (h *Holdfast) Pid() int { return h.proc.Pid() }

// Kill ends it with SIGKILL and returns when it is gone.
func (h *Holdfast) Kill() error {
	err := h.proc.Kill()
	h.proc = nil
	return err
}

// Stop freezes it with SIGSTOP.
func (h *Holdfast) Stop() error { return h.proc.Signal(syscall.SIGSTOP) }

// Continue undoes Stop.
func (h *Holdfast) Continue() error { return h.proc.Signal(syscall.SIGCONT) }

// Restart starts it (again) on the same directory and address and returns when
// it has said that it is ready.
func (h *Holdfast) Restart(ctx context.Context) error {
	if err := h.Kill(); err != nil {
		return err
	}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		return err
	}
	log, err := openLog(h.dir)
	if err != nil {
		return err
	}
	defer log.Close() // the process has its own copy
	out := &readyLines{ready: make(chan struct{})}
	args := append([]string{"serve", "--data-dir", filepath.Join(h.dir, "data"), "--listen", h.addr}, h.flags...)
	cmd := exec.Command(h.bin, args...)
	cmd.Stdout, cmd.Stderr = out, log
	if h.proc, err = Start(cmd); err != nil {
		return err
	}
	select {
	case <-out.ready:
	case <-h.proc.done:
		err = fmt.Errorf("peers: holdfast serve ended before it was ready: %v", h.proc.err)
	case <-ctx.Done():
		err = fmt.Errorf("peers: holdfast serve is not ready: %w", context.Cause(ctx))
	}
	if want := "listening tcp " + h.addr + "\n"; err == nil && !strings.Contains(out.String(), want) {
		err = fmt.Errorf("peers: holdfast serve printed %q; want %q in it", out.String(), want)
	}
	_, secure, _ := strings.Cut(out.String(), "listening tls ")
	h.tls, _, _ = strings.Cut(secure, "\n")
	_, admin, _ := strings.Cut(out.String(), "listening admin ")
	h.admin, _, _ = strings.Cut(admin, "\n")
	if err != nil {
		h.Kill()
		var log strings.Builder
		h.WriteLogs(&log)
		return fmt.Errorf("%w\n%s", err, log.String())
	}
	return nil
}

// WriteLogs writes the end of its standard error to w, for a test that failed.
func (h *Holdfast) WriteLogs(w io.Writer) {
	fmt.Fprintf(w, "--- holdfast serve, %s\n", h.addr)
	tail(w, h.dir)
}

// Close kills it. Its files stay where they are.
func (h *Holdfast) Close() error { return h.Kill() }

// readyLines collects what `holdfast serve` prints until the line "ready".
type readyLines struct {
	ready chan struct{} // closed when the line has come

	mu   sync.Mutex
	text bytes.Buffer
	seen bool
}

func (r *readyLines) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.seen {
		r.text.Write(p)
		if strings.Contains("\n"+r.text.String(), "\nready\n") {
			r.seen = true
			close(r.ready)
		}
	}
	return len(p), nil
}

func (r *readyLines) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}
