package zklocal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/zk"
	"holdfast/zkserver"
)

// hosts reports whether the store's own process hosts the directory.
func (s *Store) hosts() bool {
	host := s.host.Load()
	if host == nil {
		return false
	}
	select {
	case <-host.Done():
		return false
	default:
		return true
	}
}

func TestStoresThatComeTogetherMakeOneHost(t *testing.T) {
	dir := newDir(t)
	stores := make([]*Store, 8)
	var wg sync.WaitGroup
	for i := range stores {
		stores[i] = newStore(t, Config{Dir: dir})
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			conn, err := stores[i].dial(ctx, new(lastDirectory))
			if err != nil {
				t.Error(err)
				return
			}
			conn.Close()
		})
	}
	wg.Wait()
	hosts := 0
	for _, s := range stores {
		if s.hosts() {
			hosts++
		}
	}
	if hosts != 1 {
		t.Errorf("got %d hosts; want 1", hosts)
	}
}

func TestSessionsAndEphemeralsOutliveTheHost(t *testing.T) {
	dir := newDir(t)
	store := newStore(t, Config{Dir: dir})
	client := newClient(t, store)
	create(t, client, "/kept", zk.Ephemeral)
	id := sessionID(t, client)

	for round := range 3 {
		next := newStore(t, Config{Dir: dir})
		other := newClient(t, next)
		if !store.hosts() || next.hosts() {
			t.Fatalf("round %d: the first store must host and the second connect", round)
		}
		otherID := sessionID(t, other)
		name := fmt.Sprintf("/e%d", round)
		create(t, other, name, zk.Ephemeral)

		client.Close()
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if stat := mustExist(t, other, name); stat.EphemeralOwner != otherID {
			t.Errorf("round %d: the owner changed from %x to %x", round, otherID, stat.EphemeralOwner)
		}
		if got := sessionID(t, other); got != otherID {
			t.Errorf("round %d: session %x became %x", round, otherID, got)
		}
		if _, ok, err := other.Exists(t.Context(), "/kept"); err != nil || ok {
			t.Errorf("round %d: the node of session %x is still there after the session was closed (%v)", round, id, err)
		}
		if !next.hosts() {
			t.Errorf("round %d: the remaining store does not host", round)
		}
		store, client = next, other
	}
}

func TestAHostIsStartedWhenThereIsNone(t *testing.T) {
	dir := newDir(t)
	var (
		started atomic.Int32
		current atomic.Pointer[Host]
	)
	start := func(dir string) error {
		started.Add(1)
		h, err := OpenHost(zkserver.Config{Dir: dir})
		if err == nil {
			current.Store(h)
			t.Cleanup(func() { h.Close() })
		}
		return err
	}
	stores := []*Store{newStore(t, Config{Dir: dir, StartHost: start}), newStore(t, Config{Dir: dir, StartHost: start})}
	clients := []*zk.Client{newClient(t, stores[0]), newClient(t, stores[1])}
	if n := started.Load(); n != 1 {
		t.Fatalf("StartHost was called %d times for two stores; want once", n)
	}
	create(t, clients[0], "/a", zk.Ephemeral)
	for round := range 3 {
		current.Load().Close()
		mustExist(t, clients[0], "/a")
		mustExist(t, clients[1], "/a")
		if n := int(started.Load()); n != round+2 {
			t.Fatalf("StartHost was called %d times after %d ends of a host; want %d", n, round+1, round+2)
		}
	}
	for i, s := range stores {
		if s.hosts() {
			t.Errorf("store %d hosts, although a host can be started", i)
		}
	}
}

// dialLater dials in the background, closes the connection, and sends the error.
func dialLater(t *testing.T, s *Store) <-chan error {
	done := make(chan error, 1)
	go func() {
		conn, err := s.dial(t.Context(), new(lastDirectory))
		if err == nil {
			conn.Close()
		}
		done <- err
	}()
	return done
}

// While one client starts a host, the directory has none. A client that comes then waits, and
// does not start another.
func TestOneAtATimeStartsAHost(t *testing.T) {
	dir := newDir(t)
	starting, fail := make(chan struct{}), make(chan struct{})
	first := newStore(t, Config{Dir: dir, StartHost: func(string) error {
		close(starting)
		<-fail
		return errors.New("this one cannot") // so the store hosts the directory itself
	}})
	dialled := dialLater(t, first)
	<-starting

	second := newStore(t, Config{Dir: dir, StartHost: func(string) error {
		t.Error("another host was started")
		return errors.New("not needed")
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if conn, err := second.dial(ctx, new(lastDirectory)); err == nil {
		t.Error("the directory already had a host")
		conn.Close()
	}
	close(fail)
	if err := <-dialled; err != nil {
		t.Error(err)
	}
	conn, err := second.dial(t.Context(), new(lastDirectory))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

func TestThisProcessHostsWhenNoHostCanBeStarted(t *testing.T) {
	tests := []struct {
		name  string
		start func(string) error
	}{
		{"StartHost fails", func(string) error { return errors.New("no such command") }},
		{"nothing comes of StartHost", func(string) error { return nil }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			store := newStore(t, Config{Dir: newDir(t), StartHost: test.start})
			create(t, newClient(t, store), "/a", zk.Persistent)
			if !store.hosts() {
				t.Error("the store does not host")
			}
		})
	}
}

// Neither the started process nor this one can host. The error has both reasons, or only one
// if they are the same.
func TestAnErrorSaysWhyNobodyCanHost(t *testing.T) {
	dir, err := prepareDir(newDir(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "store"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, own := OpenHost(zkserver.Config{Dir: dir})
	if own == nil {
		t.Fatal("a host started without a store")
	}
	for start, want := range map[string]string{
		"no such command":              own.Error() + " (nor can another process: no such command)",
		"start a host: " + own.Error(): own.Error(),
	} {
		store := newStore(t, Config{Dir: dir, StartHost: func(string) error { return errors.New(start) }})
		if _, err := store.dial(t.Context(), new(lastDirectory)); err == nil || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
	}
}

// A short session timeout allows only short connection attempts. The fall-back must fit into
// one of them.
func TestTheFallBackFitsIntoAShortAttempt(t *testing.T) {
	store := newStore(t, Config{Dir: newDir(t), StartHost: func(string) error { return nil }})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	conn, err := store.dial(ctx, new(lastDirectory))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
}

// silent takes the directory's lock and accepts no connection, like a host that is opening a
// large store.
func silent(t *testing.T, dir string) *fileLock {
	t.Helper()
	if _, err := prepareDir(dir); err != nil {
		t.Fatal(err)
	}
	lock, err := tryLock(filepath.Join(dir, hostLockName))
	if err != nil {
		t.Fatal(err)
	}
	if err := writePID(dir); err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestAnAttemptEndsWithItsContextAndNamesTheHost(t *testing.T) {
	dir := newDir(t)
	defer silent(t, dir).unlock()
	for _, start := range []func(string) error{nil, func(string) error { return errors.New("must not be called") }} {
		store := newStore(t, Config{Dir: dir, StartHost: start})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err := store.dial(ctx, new(lastDirectory))
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v; want the context's error", err)
		} else if want := fmt.Sprintf("%s (pid %d)", dir, os.Getpid()); !strings.Contains(err.Error(), want) {
			t.Errorf("got %q; want it to say %q", err, want)
		}
		if store.hosts() {
			t.Error("the store hosts a directory that another process has locked")
		}
	}
}

func TestCloseEndsAnAttempt(t *testing.T) {
	dir := newDir(t)
	defer silent(t, dir).unlock()
	store := newStore(t, Config{Dir: dir})
	ended := make(chan error, 1)
	go func() {
		_, err := store.dial(context.Background(), new(lastDirectory))
		ended <- err
	}()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errClosed) {
		t.Errorf("got %v; want %v", err, errClosed)
	}
	if err := store.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

func TestAHostThatDiesBeforeItListensIsReplaced(t *testing.T) {
	dir := newDir(t)
	lock := silent(t, dir)
	store := newStore(t, Config{Dir: dir})
	connected := dialLater(t, store)
	// The attempt may find the lock taken, or free again; it must end the same way.
	lock.unlock()
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
}

func TestARemovedDirectoryIsMadeAgain(t *testing.T) {
	dir := newDir(t)
	store := newStore(t, Config{Dir: dir})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	create(t, newClient(t, store), "/a", zk.Persistent)
}

func TestServersNamesTheSocketForMessages(t *testing.T) {
	store := newStore(t, Config{Dir: newDir(t)})
	servers := store.Config().Servers
	if len(servers) != 1 || !strings.HasPrefix(servers[0], "unix:///") || !strings.HasSuffix(servers[0], "/state/socket") {
		t.Errorf("got %q; want one unix:///…/state/socket", servers)
	}
}

// Clients in the host's process talk to it over memory, however many dial at once. They do so
// only while the directory is the host's.
func TestClientsOfTheHostsProcessTalkOverMemory(t *testing.T) {
	s := newStore(t, Config{Dir: newDir(t)})
	dial := s.Config().Dial
	first, err := dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			nc, err := dial(t.Context(), "", "")
			if err != nil {
				t.Error(err)
				return
			}
			if by := nc.RemoteAddr().Network(); by != "memory" {
				t.Errorf("by %s", by)
			}
			nc.Close()
		})
	}
	wg.Wait()

	lock, err := openLockFile(filepath.Join(t.TempDir(), hostLockName))
	if err != nil {
		t.Fatal(err)
	}
	other := &identity{dir: "another", f: lock}
	defer other.close()
	if nc := s.dialHere(other); nc != nil {
		t.Error("the client is connected to the host of another directory")
	}
}
