package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/internal/cli/term"
)

// startHolder holds a lock in a process of its own, until release.
func startHolder(t *testing.T, server, lock string) (release func()) {
	t.Helper()
	cmd := exec.Command("holdfast", "lock", "--server", server, "--why", "a long reason", lock)
	var out lockedBuffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	for end := time.Now().Add(patience); !strings.HasPrefix(out.String(), "held "); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the lock is not held")
		}
	}
	return func() { _ = cmd.Process.Signal(syscall.SIGTERM) }
}

// resize sets the number of columns of a console.
func (c *console) resize(columns uint16) {
	c.t.Helper()
	raw, err := c.master.SyscallConn()
	if err != nil {
		c.t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	})
	if err != nil {
		c.t.Fatal(err)
	}
}

func TestWaitIsShownInPlace(t *testing.T) {
	t.Parallel()
	stop, url := startServer(t)
	t.Cleanup(stop)
	release := startHolder(t, url, "job")
	c := startConsole(t, "HOLDFAST_SERVER="+url, "TERM=xterm")
	c.resize(150)
	c.enter(`holdfast run job -- echo mi""ne; echo "rc=$?"`)
	c.expect(`\nholdfast: waiting for job: held by \S+ \("a long reason"\) for ≤?\d+s, position 1 of 1`)
	c.expect(`^\r\x1b\[Kholdfast: waiting for job: held by \S+ \("a long reason"\) for ≤?\d+s, position 1 of 1`)
	// A narrower terminal.
	c.resize(40)
	c.expect(`\r\x1b\[Kholdfast: waiting for job: held by [^\r\n]{0,8}…`)
	release()
	c.expect(`\r\x1b\[Kmine\r\nrc=0`)
	if lines := strings.Count(c.out.String(), "\n"); lines > 3 {
		t.Errorf("%d lines:\n%q", lines, c.out.String())
	}
}

func TestConnectingIsShownInPlace(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	t.Parallel()
	c := startConsole(t, "HOLDFAST_SERVER=zk://127.0.0.1:1,127.0.0.1:2", "TERM=xterm")
	c.resize(150)
	for _, command := range []string{"run job -- true", "lock job", "elect job -- true"} {
		c.enter("holdfast " + command)
		c.expect(`holdfast: connecting for \d+s, 2 of 2 servers tried: 127\.0\.0\.1:1, 127\.0\.0\.1:2: connection refused`)
		c.expect(`\r\x1b\[Kholdfast: connecting for \d+s, 2 of 2 `)
		if shown := c.press(ctrlC); shown != "rc=130" {
			t.Errorf("%s: after ctrl-C: %s; want the code 130", command, shown)
		}
	}
}

// Nothing is drawn on a terminal that cannot erase a line, nor over the shell's line.
func TestProgressIsLinesWhereNothingCanBeErased(t *testing.T) {
	t.Parallel()
	stop, url := startServer(t)
	t.Cleanup(stop)
	startHolder(t, url, "job")
	for _, tt := range []struct{ name, term, command string }{
		{"a terminal without a cursor", "dumb", `holdfast run job -- true`},
		{"a pipe", "xterm", `holdfast run job -- true 2>&1 | cat`},
		{"in the background", "xterm", `holdfast run job -- true &`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := startConsole(t, "HOLDFAST_SERVER="+url, "TERM="+tt.term)
			c.enter(tt.command)
			c.expect(`holdfast: waiting for job: held by [^\r\n]*, position \d of \d\r\n`)
			if strings.Contains(c.out.String(), "\x1b[K") {
				t.Errorf("the terminal shows %q", c.out.String())
			}
		})
	}
}

// tmux is a terminal that is watched by its picture.
type tmux struct {
	t      *testing.T
	socket string
}

// startTmux starts sh in a tmux of its own.
func startTmux(t *testing.T, columns, rows int, env ...string) *tmux {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	// A socket's path must be short.
	dir, err := os.MkdirTemp("", "tmux")
	if err != nil {
		t.Fatal(err)
	}
	m := &tmux{t, filepath.Join(dir, "socket")}
	cmd := exec.Command("tmux", "-S", m.socket, "-f", "/dev/null", "new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(rows), "sh", "-i")
	cmd.Env = append(append(os.Environ(), "PS1=$ ", "ENV=", "TERM=xterm", "LC_ALL=C.UTF-8"), env...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tmux: %v: %s", err, out)
	}
	t.Cleanup(func() {
		m.do("kill-server")
		_ = os.RemoveAll(dir)
	})
	m.expect(`^\$`)
	return m
}

func (m *tmux) do(args ...string) string {
	m.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-S", m.socket}, args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %q: %v: %s", args, err, out)
	}
	return string(out)
}

// enter types text and the return key.
func (m *tmux) enter(text string) {
	m.t.Helper()
	m.do("send-keys", "-l", text)
	m.do("send-keys", "Enter")
}

// expect waits until re matches the screen, and returns the screen.
func (m *tmux) expect(re string) string {
	m.t.Helper()
	compiled := regexp.MustCompile("(?m)" + re)
	screen := ""
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if screen = m.do("capture-pane", "-p"); compiled.MatchString(screen) {
			return screen
		}
	}
	m.t.Fatalf("the screen does not show %q but:\n%s", re, screen)
	return ""
}

// shown returns the lines of a screen without the empty ones at its end.
func shown(screen string) []string { return strings.Split(strings.TrimRight(screen, "\n"), "\n") }

func TestWaitInTmux(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	t.Parallel()
	stop, url := startServer(t)
	t.Cleanup(stop)
	for _, columns := range []int{120, 30} {
		t.Run(fmt.Sprint(columns), func(t *testing.T) {
			t.Parallel()
			lock := fmt.Sprint("job", columns)
			release := startHolder(t, url, lock)
			m := startTmux(t, columns, 20, "HOLDFAST_SERVER="+url)
			const command = `holdfast run "$LOCK" -- echo mine; echo rc=$?`
			m.enter("LOCK=" + lock + `; clear; echo rea""dy`)
			m.expect(`^ready$`)
			m.enter(command)
			first := m.expect(`^holdfast: waiting for `)
			if columns > 80 {
				// Each second has its picture, and no picture has more lines.
				for range 3 {
					line := shown(first)[len(shown(first))-1]
					next := m.expect(`^holdfast: waiting for job120: held by .*position 1 of 1$`)
					for end := time.Now().Add(patience); strings.Contains(next, line) && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
						next = m.do("capture-pane", "-p")
					}
					if n := len(shown(next)); n != len(shown(first)) || strings.Count(next, "waiting for") != 1 {
						t.Fatalf("the screen shows\n%s\nand before\n%s", next, first)
					}
					first = next
				}
			} else {
				time.Sleep(3 * term.ProgressStep) // three more pictures
				if next := m.do("capture-pane", "-p"); len(shown(next)) != len(shown(first)) || strings.Count(next, "waiting for") != 1 {
					t.Fatalf("the screen shows\n%s\nand before\n%s", next, first)
				}
			}
			release()
			end := m.expect(`^rc=0$`)
			if strings.Contains(end, "waiting") || !strings.Contains(end, "\nmine\nrc=0\n$") {
				t.Errorf("at the end the screen shows\n%s", end)
			}
		})
	}
}
