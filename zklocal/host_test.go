package zklocal

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/zk"
	"holdfast/zkserver"
)

// patience bounds events that must happen; no test waits for it to pass.
const patience = 30 * time.Second

func newDir(t *testing.T) string { return filepath.Join(t.TempDir(), "state") }

func newHost(t *testing.T, cfg zkserver.Config) *Host {
	t.Helper()
	h, err := OpenHost(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func newStore(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return s
}

func newClient(t *testing.T, s *Store) *zk.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := zk.Dial(ctx, s.Config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func sessionID(t *testing.T, c *zk.Client) int64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := c.Session(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s.ID()
}

func create(t *testing.T, c *zk.Client, path string, mode zk.Mode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, _, err := c.Create(ctx, path, nil, mode); err != nil {
		t.Fatal(err)
	}
}

// mustExist reads a node, and retries over a lost connection.
func mustExist(t *testing.T, c *zk.Client, path string) zk.Stat {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		stat, ok, err := c.Exists(ctx, path)
		if errors.Is(err, zk.ErrConnectionLoss) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			t.Fatalf("%s is gone", path)
		}
		return stat
	}
}

func wait(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("waited %v for: %s", patience, what)
	}
}

func TestASecondHostIsTurnedAwayWithTheNameOfTheFirst(t *testing.T) {
	dir := newDir(t)
	newHost(t, zkserver.Config{Dir: dir})
	_, err := OpenHost(zkserver.Config{Dir: dir})
	if !errors.Is(err, ErrHosted) {
		t.Fatalf("got %v; want ErrHosted", err)
	}
	for _, want := range []string{dir, "pid " + strconv.Itoa(os.Getpid())} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %q; want it to say %q", err, want)
		}
	}
	pid, err := os.ReadFile(filepath.Join(dir, hostPIDName))
	if err != nil || string(pid) != strconv.Itoa(os.Getpid()) {
		t.Errorf("host.pid: got %q, %v; want %d", pid, err, os.Getpid())
	}
}

func TestALookAtTheLockIsNotTakenForAHost(t *testing.T) {
	dir, err := prepareDir(newDir(t))
	if err != nil {
		t.Fatal(err)
	}
	look, err := tryLock(filepath.Join(dir, hostLockName))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(lockPatience/20, look.unlock)
	newHost(t, zkserver.Config{Dir: dir})
}

func TestAHostWaitsForTheStoreOfAKilledOne(t *testing.T) {
	dir, err := prepareDir(newDir(t))
	if err != nil {
		t.Fatal(err)
	}
	dying, err := zkserver.Open(zkserver.Config{Dir: dir}) // without host.lock
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(handoverPatience/20, func() { dying.Close() })
	newHost(t, zkserver.Config{Dir: dir})
}

func TestAStoreThatIsOpenElsewhereIsReported(t *testing.T) {
	dir := newDir(t)
	server, err := zkserver.Open(zkserver.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	_, err = OpenHost(zkserver.Config{Dir: dir})
	if !errors.Is(err, zkserver.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("got %v; want ErrInUse and %s", err, dir)
	}
	lock, err := tryLock(filepath.Join(dir, hostLockName))
	if err != nil {
		t.Fatalf("after a failed OpenHost: %v", err)
	}
	lock.unlock()
}

func TestAClosedHostLeavesTheDirectoryFree(t *testing.T) {
	dir := newDir(t)
	for range 2 {
		h := newHost(t, zkserver.Config{Dir: dir})
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		wait(t, h.Done(), "the host's end")
		if err := h.Err(); err != nil {
			t.Errorf("Err after Close: got %v; want nil", err)
		}
		for _, name := range []string{socketName, hostPIDName} {
			if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is still there (%v)", name, err)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, hostLockName)); err != nil {
			t.Errorf("the lock file must stay: %v", err)
		}
	}
}

func TestTheSocketOfADeadHostIsReplaced(t *testing.T) {
	dir, err := prepareDir(newDir(t))
	if err != nil {
		t.Fatal(err)
	}
	dead, err := listenSocket(dir)
	if err != nil {
		t.Fatal(err)
	}
	dead.Close() // the name stays, as after kill -9
	if _, err := os.Lstat(filepath.Join(dir, socketName)); err != nil {
		t.Fatalf("no stale socket to test with: %v", err)
	}
	newHost(t, zkserver.Config{Dir: dir}) // at once, even if the client does not retry
	client := newClient(t, newStore(t, Config{Dir: dir}))
	create(t, client, "/a", zk.Persistent)
}

// inPlaceOf replaces a file with another, however often the host makes the first one again.
func inPlaceOf(name string, create func() error) error {
	for {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := create(); !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
}

// The host lives, so it makes its socket again. Its clients notice nothing.
func TestASocketThatWasRemovedIsMadeAgain(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(socket string) error
	}{
		{"removed", os.Remove},
		{"another file has its name", func(socket string) error {
			return inPlaceOf(socket, func() error {
				f, err := os.OpenFile(socket, os.O_CREATE|os.O_EXCL, 0o600)
				if err == nil {
					err = f.Close()
				}
				return err
			})
		}},
		{"moved", func(socket string) error { return os.Rename(socket, socket+".old") }},
		{"a directory has its name", func(socket string) error {
			return inPlaceOf(socket, func() error { return os.Mkdir(socket, 0o700) })
		}},
		{"a dead socket has its name", func(socket string) error {
			return inPlaceOf(socket, func() error {
				l, err := net.Listen("unix", socket)
				if err == nil {
					l.(*net.UnixListener).SetUnlinkOnClose(false)
					err = l.Close()
				}
				return err
			})
		}},
	} {
		if !t.Run(test.name, func(t *testing.T) {
			dir := newDir(t)
			h := newHost(t, zkserver.Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
			client := newClient(t, newStore(t, Config{Dir: dir}))
			create(t, client, "/a", zk.Ephemeral)
			lost, err := client.Session(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, start := range []func(string) error{nil, func(string) error {
				t.Error("another host was started")
				return errors.New("the directory has a host already")
			}} {
				if err := test.spoil(h.Socket()); err != nil {
					t.Fatal(err)
				}
				late := newStore(t, Config{Dir: dir, StartHost: start})
				newcomer := newClient(t, late)
				mustExist(t, newcomer, "/a")
				newcomer.Close() // otherwise it needs another host when this one ends
				if late.hosts() {
					t.Error("another host was started")
				}
			}
			mustExist(t, client, "/a")
			if err := lost.Context().Err(); err != nil {
				t.Error("the client that was connected lost its session")
			}
			client.Close()
			if err := h.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(filepath.Join(dir, socketName)); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the new socket is still there after the host has ended (%v)", err)
			}
		}) {
			return
		}
	}
}

func TestASocketThatIsNotedInAFileIsLookedFor(t *testing.T) {
	t.Setenv("TMPDIR", shortTemp(t))
	dir, err := prepareDir(newDir(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, spoil := range []func(s *socket) error{
		func(s *socket) error { return os.Remove(s.path) },                         // as a clean-up of temporary files does
		func(s *socket) error { return os.Remove(filepath.Join(dir, socketName)) }, // the note
	} {
		l, path, err := listenNoted(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		file, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		s := &socket{Listener: l, dir: dir, path: path, file: file}
		if !s.reachable() {
			t.Error("the socket exists, but was not found")
		}
		if err := spoil(s); err != nil {
			t.Fatal(err)
		}
		if s.reachable() {
			t.Error("the socket was found, but does not exist")
		}
	}
}

func TestALingeringHostEndsAndTheNextOneHasItsNodes(t *testing.T) {
	dir := newDir(t)
	first := newHost(t, zkserver.Config{Dir: dir, Linger: time.Millisecond})
	wait(t, first.Done(), "the end of a host without clients")
	if err := first.Err(); err != nil {
		t.Errorf("Err after the linger time: got %v; want nil", err)
	}

	second := newHost(t, zkserver.Config{Dir: dir, Linger: 100 * time.Millisecond})
	store := newStore(t, Config{Dir: dir})
	client := newClient(t, store)
	create(t, client, "/a", zk.Persistent)
	client.Close()
	wait(t, second.Done(), "the end of a host whose client has left")

	mustExist(t, newClient(t, store), "/a")
}

func TestAHostServesFurtherListeners(t *testing.T) {
	h := newHost(t, zkserver.Config{Dir: newDir(t)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- h.Server().Serve(l) }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tcp, err := zk.Dial(ctx, zk.Config{Servers: []string{l.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	create(t, tcp, "/a", zk.Persistent)
	unix, err := zk.Dial(ctx, zk.Config{Servers: []string{"unix://" + filepath.ToSlash(h.Socket())}})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	mustExist(t, unix, "/a")
	if err := h.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-served; !errors.Is(err, zkserver.ErrServerClosed) {
		t.Errorf("Serve: got %v; want ErrServerClosed", err)
	}
}

// longDir returns a directory whose path has more than 300 characters.
func longDir(t *testing.T) string {
	dir := t.TempDir()
	for len(dir) <= 300 {
		dir = filepath.Join(dir, strings.Repeat("d", 60))
	}
	return dir
}

func TestADirectoryWithALongPath(t *testing.T) {
	dir := longDir(t)
	first := newStore(t, Config{Dir: dir})
	client := newClient(t, first)
	create(t, client, "/a", zk.Ephemeral)
	second := newStore(t, Config{Dir: dir})
	other := newClient(t, second)
	mustExist(t, other, "/a")
	create(t, other, "/b", zk.Ephemeral)
	client.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	mustExist(t, other, "/b")
}

func TestASocketThatIsNotedInAFile(t *testing.T) {
	t.Setenv("TMPDIR", shortTemp(t))
	dir, err := prepareDir(longDir(t))
	if err != nil {
		t.Fatal(err)
	}
	l, path, err := listenNoted(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := dialSocket(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	if runtime.GOOS != "windows" {
		// As if another user had taken the name after a clean-up of temporary files.
		if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := dialSocket(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "not ours") {
			t.Errorf("a socket in a directory that others can write: got %v; want a refusal", err)
		}
		if err := os.Chmod(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeSocket(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary directory is still there: %v", err)
	}
	if _, err := dialSocket(t.Context(), dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after removal: got %v; want a missing file", err)
	}
}

func TestABrokenNoteIsNoSocket(t *testing.T) {
	dir, err := prepareDir(newDir(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, note := range []string{"", "/", "socket\n", "/tmp/half-writ", filepath.Join(dir, socketName) + "\n", strings.Repeat("x", 1<<16)} {
		if err := os.WriteFile(filepath.Join(dir, socketName), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := dialSocket(t.Context(), dir); err == nil {
			t.Errorf("a note of %d bytes was followed to a socket", len(note))
		}
	}
	newHost(t, zkserver.Config{Dir: dir}) // the new host replaces it
}

// shortTemp returns a directory whose name leaves room for a socket.
func shortTemp(t *testing.T) string {
	dir, err := os.MkdirTemp("", "zkl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
