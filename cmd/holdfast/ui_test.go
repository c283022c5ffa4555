//go:build unix

package main

import (
	"bufio"
	"context"
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
	"holdfast/internal/locks"
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
		{"serve", "--data-dir", t.TempDir(), "--ui", "127.0.0.1:0"}, // the page is a program of its own
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

// userLine returns a line for a file of users.
func userLine(t *testing.T, name string, role ui.Role) string {
	t.Helper()
	line, err := ui.HashPassword(name, role, "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// writeSecret writes a file that only this user can read.
func writeSecret(t *testing.T, dir, name string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// logIn logs in at a page with users. It reports whether that succeeded.
func logIn(t *testing.T, b *http.Client, home, name string) bool {
	t.Helper()
	code, text := submit(t, b, home+"login", url.Values{"name": {name}, "password": {"correct horse"}})
	return code == http.StatusOK && strings.Contains(text, "Overview")
}

// ui with users and TLS: a viewer looks, an operator acts.
func TestUIHasUsersAndTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users := filepath.Join(dir, "users")
	writeSecret(t, dir, "users", userLine(t, "ann", ui.Operator), userLine(t, "vic", ui.Viewer))
	page := filepath.Join(dir, "page")
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if err := issue(page, template, template, nil); err != nil {
		t.Fatal(err)
	}
	server, c := serveForUI(t)
	cmd, lines := startUI(t, "--server", server, "--listen", "0.0.0.0:0", "--users", users, "--https-cert", page+".pem", "--https-key", page+".key", "/")
	home := <-lines // as it is printed, so that it works in a browser
	h, err := holdfast.NewMutex(c, "/locks/db", holdfast.WithOwner("ada")).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end := url.Values{"session": {locks.SessionText(h.SessionID())}, "reason": {"gone"}}
	for _, name := range []string{"vic", "ann"} {
		b := browser(t)
		if code, text := surf(t, b, home+"login"); code != http.StatusOK || !strings.Contains(text, "Password") {
			t.Errorf("%d %s", code, text)
		}
		if !logIn(t, b, home, name) {
			t.Errorf("%s cannot log in", name)
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
		t.Errorf("ui does not stop well: %v", err)
	}
}

// ui reads a changed file of users. The logins of a user who is gone, or has another role, end at once. A file that is
// not valid changes nothing.
func TestUIReadsChangedUsers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	line := userLine(t, "ann", ui.Operator)
	writeSecret(t, dir, "users", line, userLine(t, "bob", ui.Viewer))
	server, _ := serveForUI(t)
	_, lines := startUI(t, "--server", server, "--listen", "127.0.0.1:0", "--users", filepath.Join(dir, "users"))
	home := <-lines
	ann, bob := browser(t), browser(t)
	if !logIn(t, ann, home, "ann") || !logIn(t, bob, home, "bob") {
		t.Fatal("ann or bob cannot log in")
	}
	until := func(what string, b *http.Client, want int) {
		t.Helper()
		for late := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			code, _ := surf(t, b, home)
			switch {
			case code == want:
				return
			case time.Now().After(late):
				t.Fatalf("%s: %d; want %d", what, code, want)
			}
		}
	}
	writeSecret(t, dir, "users", "nonsense")
	time.Sleep(1500 * time.Millisecond) // it looks once a second
	until("after a file that is not valid", bob, http.StatusOK)
	writeSecret(t, dir, "users", line)
	until("bob is gone", bob, http.StatusUnauthorized)
	until("ann is still there", ann, http.StatusOK)
	writeSecret(t, dir, "users", userLine(t, "ann", ui.Viewer))
	until("ann has another role", ann, http.StatusUnauthorized)
}

// sayHalf connects from another address, and sends half a request. It waits until the page has closed the connection.
func sayHalf(ctx context.Context, address string) {
	nc, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: time.Second}).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	defer nc.Close()
	_, _ = io.WriteString(nc, "GET / HT")
	_, _ = io.Copy(io.Discard, nc)
}

// Connections without a login take a quarter of the room, so they keep nobody out: neither a browser that is logged in,
// nor a new one of another address.
func TestUIKeepsRoomForUsers(t *testing.T) {
	t.Parallel()
	server, _ := serveForUI(t)
	_, lines := startUI(t, "--server", server, "--listen", "127.0.0.1:0")
	first := <-lines
	home, _, _ := strings.Cut(first, "?")
	b := browser(t)
	if code, _ := surf(t, b, first); code != http.StatusOK {
		t.Fatal(code)
	}
	other := <-lines
	address := strings.TrimSuffix(strings.TrimPrefix(home, "http://"), "/")
	for range 1000 { // more than the page has room for
		go func() {
			for t.Context().Err() == nil {
				sayHalf(t.Context(), address)
				time.Sleep(time.Second)
			}
		}()
	}
	time.Sleep(2 * time.Second)
	for range 10 {
		b.CloseIdleConnections()
		b.Timeout = 5 * time.Second
		began := time.Now()
		if code, _ := surf(t, b, home); code != http.StatusOK {
			t.Error(code)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the page took %v", took)
		}
	}
	if code, _ := surf(t, browser(t), other); code != http.StatusOK {
		t.Error(code)
	}
}
