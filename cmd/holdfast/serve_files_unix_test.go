//go:build unix

package main

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/zk"
)

// A crowd connects to an address of serve and says nothing. The server makes its next journal and snapshots, and other
// clients connect.
func TestACrowdAtAnyAddressLeavesTheServerItsFiles(t *testing.T) {
	t.Parallel()
	const crowd = 200
	for _, tt := range []struct{ name, flag, line string }{
		{"admin", "--admin", "listening admin "},
		{"clients", "--listen", "listening tcp "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd, lines := startServeBy(t, exec.Command("sh", "-c", `ulimit -n 128 && exec holdfast serve "$@"`, "sh", "--data-dir", filepath.Join(t.TempDir(), "data"), tt.flag, "127.0.0.1:0"))
			var socket, addr string
			for _, line := range lines {
				if path, ok := strings.CutPrefix(line, "listening unix "); ok {
					socket = path
				}
				if a, ok := strings.CutPrefix(line, tt.line); ok {
					addr = a
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			client := func() *zk.Client {
				c, err := zk.Dial(ctx, zk.Config{Servers: []string{"unix://" + socket}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
				return c
			}
			c := client()
			if _, _, err := c.Create(ctx, "/n", nil, zk.Persistent); err != nil {
				t.Fatal(err)
			}
			for range crowd {
				nc, err := net.Dial("tcp", addr)
				if err != nil {
					break // the queue of the kernel is full
				}
				t.Cleanup(func() { nc.Close() })
			}
			write := func(c *zk.Client) { // three journals
				t.Helper()
				for range 30 {
					if _, err := c.Set(ctx, "/n", make([]byte, 500<<10), zk.AnyVersion); err != nil {
						t.Fatal(err)
					}
				}
			}
			write(c)
			write(client())
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("serve: %v", err)
			}
		})
	}
}

// A crowd connects to the backend for Terraform and says nothing. A client from the same address is answered, and the
// backend has files for its own work.
func TestACrowdAtTheBackendKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `ulimit -n 128 && exec holdfast-tf serve --listen 127.0.0.1:0 --server "file://$1"`, "sh", filepath.Join(t.TempDir(), "store"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url := strings.TrimPrefix(strings.TrimSpace(line), "listening ")
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimPrefix(url, "http://")
	for range 300 {
		nc, err := net.DialTimeout("tcp", addr, 5*time.Second)
		if err != nil {
			t.Fatalf("the backend accepts no connection: %v", err)
		}
		t.Cleanup(func() { nc.Close() })
	}
	client := &http.Client{Timeout: patience}
	resp, err := client.Post(url+"/tf/a/b", "application/json", strings.NewReader(`{"version":4,"serial":1,"lineage":"l"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("a state is answered with %s", resp.Status)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("tf serve: %v", err)
	}
}
