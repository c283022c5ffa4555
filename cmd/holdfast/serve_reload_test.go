//go:build unix

package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A reloading is a server that reads its files again at HUP.
type reloading struct {
	t      *testing.T
	cmd    *exec.Cmd
	at     map[string]string // addresses, by the word behind "listening"
	stderr *bufio.Scanner
	dir    string
}

func startReloading(t *testing.T, dir string, args ...string) *reloading {
	t.Helper()
	s := &reloading{t: t, dir: dir, at: make(map[string]string)}
	s.cmd = exec.Command("holdfast", append([]string{"serve", "--data-dir", filepath.Join(dir, "data")}, args...)...)
	s.cmd.Dir = dir
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	log, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	})
	s.stderr = bufio.NewScanner(log)
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
		if what, at, ok := strings.Cut(strings.TrimPrefix(lines.Text(), "listening "), " "); ok {
			s.at[what] = at
		}
	}
	return s
}

// write writes a file that only this user can read.
func (s *reloading) write(name string, lines ...string) { writeSecret(s.t, s.dir, name, lines...) }

func writeSecret(t *testing.T, dir, name string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// reload sends HUP, and waits until the log has all the texts and the end of the reload.
func (s *reloading) reload(texts ...string) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	var seen []string
	for s.stderr.Scan() {
		seen = append(seen, s.stderr.Text())
		if strings.Contains(s.stderr.Text(), "limits reloaded") || strings.Contains(s.stderr.Text(), "configuration not reloaded") {
			break
		}
	}
	for _, text := range texts {
		if !strings.Contains(strings.Join(seen, "\n"), text) {
			s.t.Errorf("the log has no %q:\n%s", text, strings.Join(seen, "\n"))
		}
	}
}

// terraform returns the status of a request to the backend.
func (s *reloading) terraform(method, path, body string, auth func(*http.Request)) int {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.at["terraform"]+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	auth(r)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

func basic(user, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(user, password) }
}

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

// HUP reads all files of users. A file that is not valid changes nothing.
func TestHangUpReloadsEveryFileOfUsers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeSecret(t, dir, "users", "ann:s3cret", "bob:s3cret")
	writeSecret(t, dir, "tokens", "0123456789abcdef", "fedcba9876543210")
	s := startReloading(t, dir, "--terraform", "127.0.0.1:0", "--terraform-users", "users", "--terraform-tokens", "tokens")
	want := func(ann, bob bool, what string) {
		t.Helper()
		for name, tt := range map[string]struct {
			token    string
			expected bool
		}{"ann": {"0123456789abcdef", ann}, "bob": {"fedcba9876543210", bob}} {
			status := map[bool]int{true: 404, false: 401}[tt.expected]
			if got := s.terraform("GET", "/tf/a/b", "", basic(name, "s3cret")); got != status {
				t.Errorf("%s: the backend answers %s with %d; want %d", what, name, got, status)
			}
			if got := s.terraform("GET", "/tf/a/b", "", bearer(tt.token)); got != status {
				t.Errorf("%s: the backend answers the token of %s with %d; want %d", what, name, got, status)
			}
		}
	}
	want(true, true, "at first")
	for _, name := range []string{"users", "tokens"} {
		s.write(name, "nonsense")
	}
	s.reload("users of the Terraform backend not reloaded")
	want(true, true, "after files that are not valid")
	s.write("users", "ann:s3cret")
	s.write("tokens", "0123456789abcdef")
	s.reload("users of the Terraform backend reloaded")
	want(true, false, "without bob")
}

// The backend's own login at the server is none of the users: it outlives every reload.
func TestHangUpKeepsTheBackendLoggedIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nobody := func(*http.Request) {}
	writeSecret(t, dir, "users", "ann:s3cret")
	writeSecret(t, dir, "serve.yaml", "{}")
	s := startReloading(t, dir, "--config", "serve.yaml", "--terraform", "127.0.0.1:0", "--auth-users", "users")
	lock := func(what string) {
		t.Helper()
		id := fmt.Sprintf(`{"ID":%q}`, what)
		for _, method := range []string{"LOCK", "UNLOCK"} {
			if got := s.terraform(method, "/tf/a/b/lock", id, nobody); got != 200 {
				t.Errorf("%s: %s is answered with %d", what, method, got)
			}
		}
	}
	lock("at first")
	s.write("serve.yaml", "auth-required: [digest]")
	s.reload("users reloaded", "users=1")
	lock("with logins required")
	s.write("users", "bob:s3cret")
	s.reload("users reloaded", "users=1")
	lock("with other users")
	s.write("serve.yaml", "auth-required: [sasl]")
	s.reload("configuration not reloaded", "--terraform needs digest")
	lock("after a file that is refused")
}
