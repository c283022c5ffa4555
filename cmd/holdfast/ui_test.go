//go:build unix

package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast"
	"holdfast/internal/cli/term"
	"holdfast/internal/deed"
	"holdfast/ui"
	"holdfast/zk"
)

// A browser keeps cookies.
func browser(t *testing.T) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: jar, Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

func surf(t *testing.T, b *http.Client, url string) (int, string) {
	t.Helper()
	resp, err := b.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func submit(t *testing.T, b *http.Client, target string, form url.Values) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", target, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", req.URL.Scheme+"://"+req.URL.Host)
	resp, err := b.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// ui prints a URL for one browser, which can break a lock. The next browser needs the next URL.
func TestUIIsForOneBrowser(t *testing.T) {
	t.Parallel()
	server, c := serveForUI(t)
	h, err := holdfast.NewMutex(c, "/holdfast/locks/db", holdfast.WithOwner("ada")).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, lines := startUI(t, "--server", server, "--listen", "127.0.0.1:0")
	first := <-lines
	home, _, _ := strings.Cut(first, "?")
	if code, _ := surf(t, browser(t), home); code != http.StatusUnauthorized {
		t.Errorf("without the token: %d", code)
	}
	b := browser(t)
	if code, text := surf(t, b, first); code != http.StatusOK || !strings.Contains(text, "Overview") {
		t.Errorf("%d %s", code, text)
	}
	second := <-lines
	if code, _ := surf(t, browser(t), first); code != http.StatusForbidden || second == first {
		t.Errorf("the token a second time: %d", code)
	}
	form := url.Values{"lock": {"/holdfast/locks/db"}, "layout": {"curator"}, "token": {fmt.Sprint(h.Token())}, "reason": {"stuck"}}
	if code, text := submit(t, b, home+"act/break", form); code != http.StatusOK || !strings.Contains(text, "broke /holdfast/locks/db") {
		t.Errorf("break: %d %s", code, text)
	}
	<-h.Lost()
	if code, text := surf(t, b, home+"audit"); code != http.StatusOK || !strings.Contains(text, "stuck") {
		t.Errorf("audit: %d %s", code, text)
	}
}

// serveForUI starts a server, and returns its URL and a client.
func serveForUI(t *testing.T) (string, *zk.Client) {
	t.Helper()
	_, lines := startServe(t, "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0")
	addr := strings.TrimPrefix(lines[1], "listening tcp ")
	c, err := zk.Dial(t.Context(), zk.Config{Servers: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return "zk://" + addr, c
}

// startUI starts ui and returns the lines that it prints.
func startUI(t *testing.T, args ...string) (*exec.Cmd, <-chan string) {
	t.Helper()
	cmd := exec.Command("holdfast", append([]string{"ui"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return cmd, lines
}

// Flags that would open the page to others are refused.
func TestUIRefusesOpenAddresses(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"ui", "--listen", "0.0.0.0:0"}, {"ui", "--listen", ":0"}, {"ui", "--listen", "[::]:0", "--users", "x"}, {"ui", "--https-cert", "x"},
		{"serve", "--data-dir", t.TempDir(), "--ui", "0.0.0.0:0"}, {"serve", "--data-dir", t.TempDir(), "--ui", ":0", "--ui-users", "x"},
		{"serve", "--data-dir", t.TempDir(), "--ui-read-only"}, {"serve", "--data-dir", t.TempDir(), "--ui", "127.0.0.1:0", "--linger", "1s"},
		{"serve", "--data-dir", t.TempDir(), "--ui", "127.0.0.1:0", "--auth-required", "sasl", "--insecure"},
	} {
		cmd := exec.Command("holdfast", args...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != term.ExitUsage {
			t.Errorf("%q: %v %s", args, err, out)
		}
	}
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("ann:operator:x"), 0o644); err != nil {
		t.Fatal(err)
	}
	server, _ := serveForUI(t)
	for mode, want := range map[os.FileMode]string{0o644: "other users can read", 0o600: "holdfast ui passwd"} {
		if err := os.Chmod(users, mode); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("holdfast", "ui", "--server", server, "--listen", "127.0.0.1:0", "--users", users)
		if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != term.ExitConfig || !strings.Contains(string(out), want) {
			t.Errorf("%v: %s", mode, out)
		}
	}
}

// serve --ui has the page in the server's process, with users and TLS, and stops with the server.
func TestServeHasThePage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users := filepath.Join(dir, "users")
	var lines []string
	for name, role := range map[string]ui.Role{"ann": ui.Operator, "vic": ui.Viewer} {
		line, err := ui.HashPassword(name, role, "correct horse")
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := os.WriteFile(users, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	page := filepath.Join(dir, "page")
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if err := issue(page, template, template, nil); err != nil {
		t.Fatal(err)
	}
	cmd, said := startServe(t, "--data-dir", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0", "--ui", "0.0.0.0:0", "--ui-users", users, "--tls-cert", page+".pem", "--tls-key", page+".key")
	var home, server string
	for _, line := range said {
		if at, ok := strings.CutPrefix(line, "listening ui "); ok {
			home = at // as it is printed, so that it works in a browser
		}
		if at, ok := strings.CutPrefix(line, "listening tcp "); ok {
			server = at
		}
	}
	if home == "" {
		t.Fatalf("printed %q", said)
	}
	c, err := zk.Dial(t.Context(), zk.Config{Servers: []string{server}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h, err := holdfast.NewMutex(c, "/locks/db", holdfast.WithOwner("ada")).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end := url.Values{"session": {deed.SessionText(h.SessionID())}, "reason": {"gone"}}
	for _, name := range []string{"vic", "ann"} {
		b := browser(t)
		if code, text := surf(t, b, home+"login"); code != http.StatusOK || !strings.Contains(text, "Password") {
			t.Errorf("%d %s", code, text)
		}
		if code, text := submit(t, b, home+"login", url.Values{"name": {name}, "password": {"correct horse"}}); code != http.StatusOK || !strings.Contains(text, "Overview") {
			t.Errorf("%s: %d %s", name, code, text)
		}
		if _, text := surf(t, b, home+"act/end?session="+end.Get("session")); name == "ann" {
			end.Set("seen", regexp.MustCompile(`name="seen" value="([^"]+)"`).FindStringSubmatch(text)[1])
		}
		code, text := submit(t, b, home+"act/end", end)
		if name == "vic" && (code != http.StatusForbidden || h.Err() != nil) {
			t.Errorf("a viewer acts: %d, %v", code, h.Err())
		}
		if name == "ann" && code != http.StatusOK {
			t.Errorf("%d %s", code, text)
		}
	}
	<-h.Lost()
	_ = cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("serve with a page does not stop well: %v", err)
	}
}

// The page's URL has a host that the page accepts.
func TestUIAddressIsOfUse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ip    string
		hosts []string
		want  string
	}{
		{"127.0.0.1", []string{"locks.example.com"}, "127.0.0.1:7480"},
		{"192.0.2.1", nil, "192.0.2.1:7480"},
		{"0.0.0.0", nil, "127.0.0.1:7480"},
		{"::", nil, "127.0.0.1:7480"},
		{"0.0.0.0", []string{"locks.example.com", "b"}, "locks.example.com:7480"},
		{"::", []string{"locks.example.com"}, "locks.example.com:7480"},
	} {
		if got := (&uiFlags{hosts: tt.hosts}).address(&net.TCPAddr{IP: net.ParseIP(tt.ip), Port: 7480}); got != tt.want {
			t.Errorf("%s, %v: %s; want %s", tt.ip, tt.hosts, got, tt.want)
		}
	}
}
