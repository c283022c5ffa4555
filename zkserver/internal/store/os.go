package store

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// OpenJournal opens the store in dir, and makes it if it does not exist. Files and
// directories are for their owner only, whatever the umask. If the store is already open,
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
	// The store has a subdirectory of its own. dir may be a directory that the user made, with other
	// files in it, and stays as it is.
	parent := dir
	dir = filepath.Join(dir, "store")
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if err := syncPath(parent); err != nil { // also if an earlier process that made dir was killed before its sync
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, err
	}
	d, err := openDir(dir)
	if err != nil {
		return nil, err
	}
	lock, err := d.lock()
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	j := OpenOn(d, journalRoom)
	j.held = []io.Closer{lock, d}
	return j, nil
}

// makeDir is os.MkdirAll for a directory that survives a power failure: it syncs each new
// name in the parent directory.
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
	return syncPath(parent)
}

// syncPath makes the names in a directory durable.
func syncPath(dir string) error {
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.SyncDir(), d.Close())
}

// osDir is an open directory of the machine. If the directory is removed or renamed, and another
// one gets its name, osDir stays with the first one.
type osDir struct {
	root *os.Root
	self *os.File // for SyncDir, which must not fail for want of a file; nil if it does nothing
	path string
}

// openDir opens a directory. The caller closes it.
func openDir(path string) (osDir, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() { // opening a pipe would wait for its other end
		return osDir{}, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return osDir{}, err
	}
	self, err := openSelf(root)
	if err != nil {
		return osDir{}, errors.Join(err, root.Close())
	}
	return osDir{root, self, path}, nil
}

// Close closes the directory. Its files stay open.
func (d osDir) Close() error {
	if d.self == nil {
		return d.root.Close()
	}
	return errors.Join(d.self.Close(), d.root.Close())
}

// lock locks the directory for one store. The lock belongs to the open file, so it excludes this
// process, too. The file is never removed: another process might lock the removed one.
func (d osDir) lock() (*osFile, error) {
	f, err := d.create("LOCK")
	if err != nil {
		return nil, err
	}
	return f, d.tryLock(f)
}

// tryLock locks f, or closes it.
func (d osDir) tryLock(f *osFile) error {
	err := tryLock(f.File)
	if err == nil {
		return nil
	}
	if lockedElsewhere(err) {
		err = fmt.Errorf("%w (%v)", ErrInUse, err)
	}
	return errors.Join(fmt.Errorf("lock %s: %w", d.path, err), f.Close())
}

func (d osDir) Open(name string) (File, error) {
	f, err := d.openFile(name, os.O_RDWR)
	if err != nil {
		return nil, err // not a typed nil
	}
	return f, nil
}

func (d osDir) Create(name string) (File, error) {
	f, err := d.create(name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// create sets the mode explicitly, because the umask belongs to the whole process.
func (d osDir) create(name string) (*osFile, error) {
	f, err := d.openFile(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o600); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d osDir) openFile(name string, flags int) (*osFile, error) {
	f, err := d.root.OpenFile(name, flags|noWait, 0o600)
	if err != nil {
		return nil, d.failed("open", name, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		if err == nil {
			err = errNotRegular
		}
		return nil, errors.Join(d.failed("open", name, err), f.Close())
	}
	return &osFile{f}, nil
}

var errNotRegular = errors.New("not a regular file")

func (d osDir) Rename(from, to string) error {
	return d.failed("rename", from, d.root.Rename(from, to))
}

func (d osDir) Remove(name string) error { return d.failed("remove", name, d.root.Remove(name)) }
func (d osDir) SyncDir() error           { return d.failed("sync", "", syncDir(d.self)) }
func (d osDir) Path(name string) string  { return filepath.Join(d.path, name) }
func (d osDir) Boot() BootID             { return bootID() }

func (d osDir) List() ([]string, error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, d.failed("open", "", err)
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// failed returns err with the full path. The errors of an os.Root have the name only.
func (d osDir) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	} else if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = link.Err
	}
	return &fs.PathError{Op: op, Path: d.Path(name), Err: err}
}

type osFile struct{ *os.File }

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// parseBoot parses a boot id as Linux and macOS write it, as a UUID. It returns zeros for any other
// text.
func parseBoot(s string) (id BootID) {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(s), "-", ""))
	if err == nil && len(b) == len(id) {
		copy(id[:], b)
	}
	return id
}
