//go:build unix

package main

import (
	"bufio"
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
