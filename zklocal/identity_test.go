package zklocal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/zk"
	"holdfast/zkserver"
)

// moveAway renames the directory.
func moveAway(t *testing.T, dir string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a directory with open files cannot be moved here")
	}
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
}

// A client between two connections has no connection that could break. It is told when it
// dials, before the new directory has a host.
func TestAClientWhoseDirectoryIsGoneIsToldOnceWhenItDials(t *testing.T) {
	dir := newDir(t)
	h := newHost(t, zkserver.Config{Dir: dir})
	store := newStore(t, Config{Dir: dir})
	dial, other := store.Config().Dial, store.Config().Dial
	nc, err := dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	moveAway(t, dir)
	if _, err := dial(t.Context(), "", ""); !errors.Is(err, zk.ErrSessionExpired) || !errors.Is(err, errRemoved) {
		t.Errorf("got %v; want it to be %v and %v", err, zk.ErrSessionExpired, errRemoved)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the client was told only after the directory was made again (%v)", err)
	}
	h.Close()
	for _, dial := range []func() error{
		func() error { return closed(dial(t.Context(), "", "")) },
		func() error { return closed(other(t.Context(), "", "")) }, // it has never connected anywhere else
	} {
		if err := dial(); err != nil {
			t.Errorf("in the new directory: %v", err)
		}
	}
}

func closed(nc interface{ Close() error }, err error) error {
	if err != nil {
		return err
	}
	return nc.Close()
}

// A lost connection to a healthy host says nothing about the session.
func TestAConnectionThatEndsIsNoRemoval(t *testing.T) {
	dir := newDir(t)
	h := newHost(t, zkserver.Config{Dir: dir})
	nc, err := newStore(t, Config{Dir: dir}).Config().Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	h.Close()
	if _, err := nc.Read(make([]byte, 1)); err == nil || errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("got %v; want an error that does not end the session", err)
	}
}

// A connection detects the removal itself if the host does not, for example because it is
// stopped. If the host closes the connection, the connection knows why.
func TestAConnectionBreaksWhenItsDirectoryIsGone(t *testing.T) {
	for _, test := range []struct {
		name   string
		closes bool
	}{{"the host closes it", true}, {"the host does nothing", false}} {
		t.Run(test.name, func(t *testing.T) {
			dir := newDir(t)
			defer silent(t, dir).unlock()
			l, err := listenSocket(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			nc, err := newStore(t, Config{Dir: dir}).Config().Dial(t.Context(), "", "")
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			host, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer host.Close()
			moveAway(t, dir)
			if test.closes {
				host.Close()
				if _, err := nc.Write([]byte{1}); !errors.Is(err, zk.ErrSessionExpired) {
					t.Errorf("Write: got %v; want it to be %v", err, zk.ErrSessionExpired)
				}
			}
			if _, err := nc.Read(make([]byte, 1)); !errors.Is(err, zk.ErrSessionExpired) || !errors.Is(err, errRemoved) {
				t.Errorf("Read: got %v; want it to be %v and %v", err, zk.ErrSessionExpired, errRemoved)
			}
		})
	}
}

func TestANameLeadsToItsFileUntilItIsGone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a directory with open files cannot be moved here")
	}
	for _, test := range []struct {
		name   string
		change func(dir string) error
		want   bool
	}{
		{"nothing happens", func(string) error { return nil }, true},
		{"other files come and go", func(dir string) error { return os.Remove(filepath.Join(dir, "other")) }, true},
		{"the file is removed", func(dir string) error { return os.Remove(filepath.Join(dir, hostLockName)) }, false},
		{"the file is another one", func(dir string) error {
			return os.Rename(filepath.Join(dir, "other"), filepath.Join(dir, hostLockName))
		}, false},
		{"the directory is moved", func(dir string) error { return os.Rename(dir, dir+".old") }, false},
		{"a file has the directory's name", func(dir string) error {
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := newDir(t)
			if _, err := prepareDir(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "other"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(filepath.Join(dir, hostLockName))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := test.change(dir); err != nil {
				t.Fatal(err)
			}
			if got := leadsTo(f); got != test.want {
				t.Errorf("got %v; want %v", got, test.want)
			}
		})
	}
}

// If a client makes a file in the directory while rm -rf runs, rm fails and half a store stays.
func TestADirectoryThatIsBeingRemovedIsLeftAlone(t *testing.T) {
	for _, test := range []struct {
		name     string
		files    []string
		removed  time.Duration // when it is removed; 0 is never
		min, max time.Duration // how long it is left alone
	}{
		{"a new one", nil, 0, 0, 0},
		{"one that is whole", []string{hostLockName, "000002.log"}, 0, 0, 0},
		{"one that is being removed", []string{"000002.log"}, 100 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond},
		{"one in which only the lock was removed", []string{"000002.log"}, 0, removalPatience, 2 * removalPatience},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := newDir(t)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range test.files {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				if test.removed > 0 {
					time.AfterFunc(test.removed, func() {
						if err := os.RemoveAll(dir); err != nil {
							t.Error(err)
						}
					})
				}
				began := time.Now()
				if _, err := prepareDir(dir); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < test.min || took > test.max {
					t.Errorf("the directory was left alone for %v; want %v to %v", took, test.min, test.max)
				}
			})
			if _, err := os.Lstat(filepath.Join(dir, hostLockName)); err != nil {
				t.Error(err)
			}
		})
	}
}

// The directories above may be removed next. So a client that was told of the removal does not
// make its own directory again at once.
func TestARemovedDirectoryIsNotMadeAnewAtOnce(t *testing.T) {
	dir := newDir(t)
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t, Config{Dir: dir})
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		store.identity = &identity{dir: dir, gone: time.Now()}
		if up, err := store.provideHost(t.Context()); up || err != nil {
			t.Fatalf("provideHost: %v, %v", up, err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory was made again too early (%v)", err)
		}
		time.Sleep(removalGrace)
		if store.settling() {
			t.Errorf("the directory was not made again after %v", removalGrace)
		}
	})
}
