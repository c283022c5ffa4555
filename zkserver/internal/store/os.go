package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// OpenJournal opens the store in dir, and makes it if it is not there. The files and
// directories are for their owner only, regardless of the umask. If the store is open already,
// the error wraps ErrInUse. Load reads the store.
func OpenJournal(dir string) (*Journal, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	// A directory of our own below: dir may be one that the user made, with other
	// things in it, and is left as it is.
	dir = filepath.Join(dir, "store")
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	// The lock belongs to the open file, so it excludes this process, too. The file is
	// never removed: somebody might lock the one that is gone.
	lock, err := osDir(dir).Create("LOCK")
	if err != nil {
		return nil, err
	}
	f := lock.(*osFile)
	if err := tryLock(f.File); err != nil {
		if lockedElsewhere(err) {
			err = fmt.Errorf("%w (%v)", ErrInUse, err)
		}
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), f.Close())
	}
	j := OpenOn(osDir(dir), journalRoom)
	j.lock = f
	return j, nil
}

// makeDir is os.MkdirAll for a directory that survives a power failure: each new
// name is synced in the directory that holds it.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// osDir is a directory of the machine.
type osDir string

func (d osDir) Open(name string) (File, error) {
	f, err := openFile(d.Path(name), os.O_RDWR)
	if err != nil {
		return nil, err // not a typed nil
	}
	return f, nil
}

// Create sets the mode, because the umask belongs to the whole process.
func (d osDir) Create(name string) (File, error) {
	f, err := openFile(d.Path(name), os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o600); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d osDir) Rename(from, to string) error { return os.Rename(d.Path(from), d.Path(to)) }
func (d osDir) Remove(name string) error     { return os.Remove(d.Path(name)) }
func (d osDir) SyncDir() error               { return syncDir(string(d)) }
func (d osDir) Path(name string) string      { return filepath.Join(string(d), name) }
func (d osDir) Boot() BootID                 { return bootID() }

func (d osDir) List() (names []string, err error) {
	entries, err := os.ReadDir(string(d))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

type osFile struct{ *os.File }

func openFile(path string, flags int) (*osFile, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	return &osFile{f}, nil
}

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// parseBoot reads a boot id as Linux and macOS write it, as a UUID. Anything else is none.
func parseBoot(s string) (id BootID) {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(s), "-", ""))
	if err == nil && len(b) == len(id) {
		copy(id[:], b)
	}
	return id
}
