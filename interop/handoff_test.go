//go:build unix

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"holdfast/interop/peers"
)

// Bounds on how long a lock may stay with a killed holder.
const (
	handoffTimeout = 15 * time.Second // session timeout
	handoffMost    = 5 * time.Second  // the watchdog closes the session, or the server sees that its processes are dead
)

var handoffs = flag.Int("handoffs", 1, "how many holders are killed on each backend, one after the other")

func TestLockOfAKilledHolderGoesToTheNextInTime(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), stepTime+time.Duration(*handoffs)*2*handoffTimeout)
			defer cancel()
			url := b.url(t)
			holder := startHolder(ctx, t, url)
			if err := holder.line(ctx); err != nil {
				t.Fatalf("the first client does not acquire the lock: %v", err)
			}
			var orphaned, took []time.Duration
			for range *handoffs {
				waiter := startHolder(ctx, t, url)
				awaitWaiter(ctx, t, url, waiter)

				killed := time.Now()
				must(t, holder.process.Kill())
				// The child holds the other end of the pipe: the end of the file is its end.
				if err := holder.line(ctx); err != io.EOF {
					t.Fatalf("the killed holder's command: got %v; want its end", err)
				}
				gone := time.Since(killed)
				if err := waiter.line(ctx); err != nil {
					t.Fatalf("the next client does not acquire the lock: %v\n%s", err, waiter.stderr(t))
				}
				next := time.Since(killed)
				if next > handoffMost {
					t.Errorf("the next client acquired the lock after %v; want at most %v", next, handoffMost)
				}
				if gone > next {
					t.Error("the next client acquired the lock while the killed holder's command was still running")
				}
				orphaned, took = append(orphaned, gone), append(took, next)
				holder = waiter
			}
			measured(t, "session timeout %v: holder killed → its command gone: %s; → the next has the lock: %s",
				handoffTimeout, percentiles(orphaned), percentiles(took))
		})
	}
}

// A lockHolder is a `holdfast run` whose command prints "held" and stays.
type lockHolder struct {
	process *peers.Process
	lines   chan string // lines of its standard output, then closed
	log     string      // file with its standard error
}

func startHolder(ctx context.Context, t *testing.T, url string) *lockHolder {
	t.Helper()
	cmd := underLock(ctx, t, url, "handoff", hold, "--session-timeout", handoffTimeout.String(), "--wait", "60s")
	log, err := os.CreateTemp(t.TempDir(), "stderr")
	must(t, err)
	defer log.Close()
	cmd.Stderr = log
	// Not StdoutPipe: Wait would close it when holdfast ends, not when its child does.
	r, w, err := os.Pipe()
	must(t, err)
	cmd.Stdout = w
	h := &lockHolder{lines: make(chan string, 1), log: log.Name()}
	h.process, err = peers.Start(cmd)
	w.Close()
	if err != nil {
		r.Close()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.process.Kill(); err != nil {
			t.Error(err)
		}
	})
	go func() {
		defer r.Close()
		defer close(h.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			h.lines <- s.Text()
		}
	}()
	return h
}

// line waits for the command's line; it returns io.EOF when the command is gone.
func (h *lockHolder) line(ctx context.Context) error {
	select {
	case line, ok := <-h.lines:
		if !ok {
			return io.EOF
		}
		if line != "held" {
			return fmt.Errorf("printed %q", line)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (h *lockHolder) stderr(t *testing.T) string {
	text, err := os.ReadFile(h.log)
	must(t, err)
	return string(text)
}

// awaitWaiter returns when `holdfast status` shows the waiter in the queue.
func awaitWaiter(ctx context.Context, t *testing.T, url string, waiter *lockHolder) {
	t.Helper()
	for {
		out, err := exec.CommandContext(ctx, holdfastBin(t), "status", "--server", url, "-o", "json", "handoff").CombinedOutput()
		var status struct{ Waiters []json.RawMessage }
		if err == nil {
			err = json.Unmarshal(out, &status)
		}
		if err == nil && len(status.Waiters) == 1 {
			return
		}
		select {
		case <-waiter.process.Done():
			t.Fatalf("the waiter ended: %v\n%s", waiter.process.Err(), waiter.stderr(t))
		case <-ctx.Done():
			t.Fatalf("holdfast status never showed one waiter: %v\n%s", err, out)
		case <-time.After(20 * time.Millisecond): // each is a separate process
		}
	}
}
