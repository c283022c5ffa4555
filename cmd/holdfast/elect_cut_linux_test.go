package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A relay passes connections on to a server.
type relay struct {
	net.Listener
	gate sync.RWMutex // locked: nothing passes

	mu    sync.Mutex // guards the fields below
	ended bool
	open  []net.Conn
}

func startRelay(t *testing.T, server string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: l}
	pass := func(to, from net.Conn) {
		defer to.Close()
		b := make([]byte, 64<<10)
		for {
			n, err := from.Read(b)
			r.gate.RLock()
			if err == nil {
				_, err = to.Write(b[:n])
			}
			r.gate.RUnlock()
			if err != nil {
				return
			}
		}
	}
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", server)
			r.mu.Lock()
			if err != nil || r.ended {
				from.Close()
			} else {
				r.open = append(r.open, from, to)
				go pass(to, from)
				go pass(from, to)
			}
			r.mu.Unlock()
		}
	}()
	t.Cleanup(r.cut)
	return r
}

// cut ends all connections, and refuses others.
func (r *relay) cut() {
	r.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for _, c := range r.open {
		c.Close()
	}
}

// startElect starts holdfast elect, and returns where it answers HTTP requests, if it does.
func startElect(t *testing.T, args ...string) (elect *os.Process, address string) {
	t.Helper()
	cmd := exec.Command("holdfast", append([]string{"elect"}, args...)...)
	var said lockedBuffer
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if !strings.Contains(strings.Join(args, " "), "--http") {
		return cmd.Process, ""
	}
	answering := regexp.MustCompile(`answering at (http://\S+)\n`)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if m := answering.FindStringSubmatch(said.String()); m != nil {
			return cmd.Process, m[1]
		}
	}
	t.Fatalf("elect answers nowhere: %s", said.String())
	return nil, ""
}

// A leader that is cut off or stopped says no before the next process leads. The processes are real, and so is
// the time.
func TestLeaderSaysNoBeforeAnotherProcessLeads(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		fail func(*testing.T, *relay, *os.Process)
	}{
		{"the connection ends", func(_ *testing.T, r *relay, _ *os.Process) { r.cut() }},
		{"the network loses all packets", func(t *testing.T, r *relay, _ *os.Process) {
			r.gate.Lock()
			t.Cleanup(r.gate.Unlock)
		}},
		// A question that arrives during the stop is answered after it.
		{"the process is stopped", func(t *testing.T, _ *relay, elect *os.Process) {
			if err := elect.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stop, url := startServer(t)
			defer stop()
			r := startRelay(t, strings.TrimPrefix(url, "zk://"))
			// The answer is no 900 ms before another process can lead, so a slow test does not take a true
			// answer for a wrong one.
			flags := []string{"--session-timeout", "2s", "--kill-after", "900ms"}
			elect, page := startElect(t, append(flags, "--server", "zk://"+r.Addr().String(), "--http", "0", "office", "--", "sleep", "1000")...)
			client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
			leads := func() bool {
				resp, err := client.Get(page + "/leader")
				if err != nil {
					return false // elect has ended
				}
				defer resp.Body.Close()
				_, _ = io.Copy(io.Discard, resp.Body)
				return resp.StatusCode == http.StatusOK
			}
			for end := time.Now().Add(patience); !leads(); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("the first process does not lead")
				}
			}
			mark := filepath.Join(t.TempDir(), "leads")
			startElect(t, append(flags, "--server", url, "office", "--", "sh", "-c", `echo > "$0"; exec sleep 1000`, mark)...)
			tt.fail(t, r, elect)
			for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
				yes := leads()
				_, err := os.Stat(mark)
				if yes && err == nil {
					t.Fatal("another process leads, and /leader is 200")
				}
				if err == nil {
					return
				}
				if time.Now().After(end) {
					t.Fatal("the second process does not lead")
				}
			}
		})
	}
}
