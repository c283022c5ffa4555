//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdfast/ui"
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

// HUP reads the file of the users of the page. The logins of a user who is gone, or has another password or role, end at once. A file
// that is not valid changes nothing.
func TestHangUpReloadsTheUsersOfThePage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	line := func(name string, role ui.Role, password string) string {
		l, err := ui.HashPassword(name, role, password)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ann, bob := line("ann", ui.Operator, "correct horse"), line("bob", ui.Viewer, "correct horse")
	writeSecret(t, dir, "page", ann, bob)
	s := startReloading(t, dir, "--ui", "127.0.0.1:0", "--ui-users", "page")
	home := s.at["ui"]
	logIn := func(name string) (*http.Client, bool) {
		b := browser(t)
		_, text := submit(t, b, home+"login", url.Values{"name": {name}, "password": {"correct horse"}})
		return b, !strings.Contains(text, "Password")
	}
	in := func(b *http.Client) bool {
		code, _ := surf(t, b, home)
		return code == http.StatusOK
	}
	annsPage, ok := logIn("ann")
	bobsPage, ok2 := logIn("bob")
	if !ok || !ok2 {
		t.Fatal("ann or bob cannot log in")
	}
	stream, err := bobsPage.Get(home + "events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	want := func(ann, bob bool, what string) {
		t.Helper()
		for name, tt := range map[string]struct {
			page     *http.Client
			expected bool
		}{"ann": {annsPage, ann}, "bob": {bobsPage, bob}} {
			if got := in(tt.page); got != tt.expected {
				t.Errorf("%s: the login of %s lives: %v", what, name, got)
			}
			if _, got := logIn(name); got != tt.expected {
				t.Errorf("%s: %s logs in: %v", what, name, got)
			}
		}
	}
	want(true, true, "at first")
	s.write("page", "nonsense")
	s.reload("users of the page not reloaded")
	want(true, true, "after files that are not valid")
	s.write("page", ann)
	s.reload("users of the page reloaded")
	want(true, false, "without bob")
	if _, err := io.Copy(io.Discard, stream.Body); err != nil && !strings.Contains(err.Error(), "EOF") {
		t.Error(err)
	}
	s.write("page", line("ann", ui.Viewer, "correct horse"), bob)
	s.reload()
	if in(annsPage) {
		t.Error("the login of ann lives, though she has another role")
	}
	if in(bobsPage) {
		t.Error("the login of bob is back")
	}
	if _, ok := logIn("bob"); !ok {
		t.Error("bob cannot log in again")
	}
}

// A reload does not shut the page out of its own server.
func TestHangUpKeepsThePageLoggedIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeSecret(t, dir, "users", "ann:s3cret")
	writeSecret(t, dir, "serve.yaml", "{}")
	s := startReloading(t, dir, "--config", "serve.yaml", "--ui", "127.0.0.1:0", "--auth-users", "users")
	s.write("serve.yaml", "auth-required: [digest]")
	s.reload("configuration not reloaded", "do not go together")
	b := browser(t)
	if code, text := surf(t, b, s.at["ui"]); code != http.StatusOK || strings.Contains(text, "login required") {
		t.Errorf("%d %s", code, text)
	}
}
