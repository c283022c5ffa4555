//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast"
	"holdfast/zk"
)

// connectionsOf returns how many clients a server has, besides the one that asks.
func connectionsOf(t *testing.T, addr string) string {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := io.WriteString(nc, "srvr"); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(nc)
	m := regexp.MustCompile(`Connections: (\d+)`).FindStringSubmatch(string(text))
	if err != nil || m == nil {
		t.Fatalf("srvr: %q, %v", text, err)
	}
	return m[1]
}

// press sends a beginning to addr, and then spaces as fast as they are taken, on as many connections as it gets.
func press(ctx context.Context, addr, beginning string) {
	spaces := strings.Repeat(" ", 64<<10)
	for range 100 {
		go func() {
			for ctx.Err() == nil {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					time.Sleep(10 * time.Millisecond)
					continue
				}
				stop := context.AfterFunc(ctx, func() { nc.Close() })
				_, err = io.WriteString(nc, beginning)
				for range 16 {
					if err == nil {
						_, err = io.WriteString(nc, spaces)
					}
				}
				_, _ = io.Copy(io.Discard, nc)
				stop()
				nc.Close()
			}
		}()
	}
}

// The page and the backend for Terraform are processes of their own, and each of them is one client of the server. So nothing
// that happens to them stops the locks: neither uploads that are refused, nor bodies that never end, nor crowds, nor that
// they are stopped or killed.
func TestThePageAndTheBackendStopNoLocks(t *testing.T) {
	t.Parallel()
	server, c := serveForUI(t)
	tf, tfLines := startServeBy(t, exec.Command("holdfast", "tf", "serve", "--server", server, "--listen", "127.0.0.1:0"))
	page, pageLines := startUI(t, "--server", server, "--listen", "127.0.0.1:0")
	pageAddr := regexp.MustCompile(`[\d.]+:\d+`).FindString(<-pageLines)
	tfAddr := strings.TrimPrefix(tfLines[0], "listening http://")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := holdfast.NewMutex(c, "/apart")
	locks := func(when string) {
		t.Helper()
		for range 10 {
			h, err := m.Lock(ctx)
			if err == nil {
				err = h.Unlock()
			}
			if err != nil {
				t.Fatalf("%s: %v", when, err)
			}
		}
		if n := connectionsOf(t, strings.TrimPrefix(server, "zk://")); n > "4" || len(n) > 1 {
			t.Errorf("%s: the server has %s connections; want one of each program, ours and that of srvr", when, n)
		}
		if _, err := c.Set(ctx, "/apart", nil, zk.AnyVersion); err != nil {
			t.Errorf("%s: %v", when, err)
		}
	}
	locks("before")
	flood, stop := context.WithCancel(ctx)
	press(flood, tfAddr, "POST /tf/a/b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 300000000\r\n\r\n{")
	press(flood, tfAddr, "LOCK /tf/a/b/lock HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 300000000\r\n\r\n{")
	press(flood, pageAddr, fmt.Sprintf("POST /login HTTP/1.1\r\nHost: %s\r\nOrigin: http://%s\r\nContent-Length: 300000000\r\n\r\n", pageAddr, pageAddr))
	for range 5 {
		locks("during the uploads")
		time.Sleep(100 * time.Millisecond)
	}
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, cmd := range []*exec.Cmd{tf, page} {
			if err := cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
		}
		locks("after " + signal.String())
	}
	stop()
}
