package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// top ends with the documented codes, and leaves the terminal as it was.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	stop, url := startServer(t)
	t.Cleanup(stop)
	startHolder(t, url, "db/migrate")
	c := startConsole(t, "HOLDFAST_SERVER="+url, "TERM=xterm", "NO_COLOR=")
	c.resize(150)
	c.enter(`stty -g >before; holdfast top`)
	c.expect("\x1b\\[\\?1049h") // the other screen
	c.expect("\x1b\\[7m> db/migrate")
	c.keys(ctrlZ)
	c.expect("Stopped")
	c.enter(`fg; echo "rc=$?"; stty -g >after; cmp before after && echo "sa""me"`)
	c.expect("db/migrate")
	c.keys("q")
	c.expect("\x1b\\[\\?1049l")
	c.expect("rc=0")
	c.expect("same")

	c.enter(`clear; NO_COLOR=1 holdfast top; echo "rc=$?"`)
	c.expect("1 lock, 1 held")
	plain := c.expect(`db/migrate`)
	c.keys(ctrlC)
	plain += c.expect("rc=0")
	if strings.Contains(plain, "\x1b[33m") || strings.Contains(plain, "\x1b[7m") {
		t.Errorf("NO_COLOR, and the terminal shows %q", plain)
	}
	// TERM ends it, too.
	file := filepath.Join(t.TempDir(), "pid")
	c.enter(`sh -c 'echo $$ >` + file + `; exec holdfast top'; echo "rc=$?"`)
	c.expect("db/migrate")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.expect("rc=0")
	c.enter(`cmp before after && stty -g | cmp - before && echo "sa""me"`)
	c.expect("same")

	c.enter(`TERM=dumb holdfast top; echo "rc=$?"`)
	c.expect("must be a terminal")
	c.expect("rc=2")
	c.enter(`HOLDFAST_SERVER=zk://127.0.0.1:1 holdfast top --session-timeout 1s; echo "rc=$?"`)
	c.expect("cannot reach zk://127.0.0.1:1")
	c.expect("rc=69")
}

// If the server goes away, top says since when its data are old.
func TestTopWithoutItsServer(t *testing.T) {
	t.Parallel()
	stop, url := startServer(t)
	startHolder(t, url, "db/migrate")
	c := startConsole(t, "HOLDFAST_SERVER="+url, "TERM=xterm", "NO_COLOR=")
	c.resize(150)
	c.enter(`holdfast top; echo "rc=$?"`)
	c.expect("db/migrate")
	stop()
	c.expect("OLD: of [0-9:]+, [0-9a-z]+ ago: no server answers")
	c.keys("b")
	c.expect("nothing can be done now")
	c.keys("q")
	c.expect("rc=0")
}

// If the server does not answer for a while, top says so, the keys work, and then it goes on.
func TestTopSurvivesASilentServer(t *testing.T) {
	t.Parallel()
	stop, url := startServer(t)
	t.Cleanup(stop)
	startHolder(t, url, "db/migrate")
	between := startRelay(t, strings.TrimPrefix(url, "zk://"))
	m := startTmux(t, 120, 24, "HOLDFAST_SERVER=zk://"+between.Addr().String())
	m.enter(`clear; holdfast top --session-timeout 2s; echo "rc=$?"`)
	m.expect(`^> db/migrate +held`)
	between.gate.Lock()
	m.expect(`^OLD: of [0-9:]+, \S+ ago: (no server answers|the server is slow)`)
	m.key("?")
	m.expect(`^b +break: take the lock away`)
	m.key("x")
	m.expect(`^> db/migrate +held`)
	between.gate.Unlock()
	m.expect(`^[0-9:]+(, [0-9a-z]+ ago)?  1 lock, 1 held, 0 waiting`)
	m.expect(`^> db/migrate +held`)
	m.key("q")
	m.expect(`^rc=0$`)
}

// A server that wants a login does not show a screen.
func TestTopWithoutPermission(t *testing.T) {
	t.Parallel()
	users := filepath.Join(t.TempDir(), "users")
	if err := os.WriteFile(users, []byte("ann:secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stop, url := startServer(t, "--auth-users", users, "--auth-required", "digest")
	t.Cleanup(stop)
	c := startConsole(t, "HOLDFAST_SERVER="+url, "TERM=xterm")
	c.enter(`holdfast top; echo "rc=$?"`)
	c.expect("hint: log in with --auth")
	c.expect("rc=77")
}

// In a real terminal: a holder with its waiter, the next holder, and a break that leaves its audit line.
func TestTopInTmux(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	t.Parallel()
	stop, url := startServer(t)
	t.Cleanup(stop)
	release := startHolder(t, url, "db/migrate")
	m := startTmux(t, 140, 24, "HOLDFAST_SERVER="+url)
	m.enter(`holdfast lock --who bob@h2:2 db/migrate >next 2>/dev/null & clear; holdfast top; echo "rc=$?"`)
	m.expect(`^> db/migrate +held +\S+@\S+ .* 1 .*a long reason`)
	m.expect(`^── db/migrate is held by \S+@`)
	m.expect(`^  1 +bob@h2:2`)
	m.key("?")
	m.expect(`^b +break: take the lock away`)
	m.key("x")
	release()
	m.expect(`^> db/migrate +held +bob@h2:2 .* 0 `)
	// b asks, and does it.
	m.key("b")
	m.expect(`^db/migrate: bob@h2:2 holds the lock for `)
	m.expect(`^break it\? y: yes; any other key: no`)
	m.key("n")
	m.expect(`^nothing was done`)
	m.key("b")
	m.expect(`^break it\? `)
	m.key("y")
	m.expect(`^broke db/migrate, token [0-9]+`)
	m.expect(`^(> db/migrate +free|no locks)`)
	m.key("q")
	m.expect(`^holdfast: audit: .* break: /holdfast/locks/db/migrate, token [0-9]+`)
	m.expect(`^rc=0$`)
	m.enter(`clear; holdfast history db/migrate`)
	m.expect(`break`)
}

// key presses a key.
func (m *tmux) key(name string) { m.t.Helper(); m.do("send-keys", name) }
