package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble is a store on disk: one synchronous batch per commit.
type Pebble struct {
	dir     string
	db      *pebble.DB
	lock    *pebble.Lock
	log     *pebbleLog
	witness *witness
	commits uint64 // number of the last commit, which is in the database too
}

// OpenPebble opens the store in dir, and makes it if it is not there. What it makes
// is for its owner only, whatever the umask says.
func OpenPebble(dir string, logger *slog.Logger) (*Pebble, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	// The database's lock is remembered by name within a process, and a POSIX lock does
	// not exclude its own process: two spellings of one directory must not be two names.
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
	fs := privateFS{vfs.Default}
	if err := fs.MkdirAll(dir, 0o700); err != nil { // sets the mode
		return nil, err
	}
	return OpenPebbleOn(fs, dir, logger)
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
	d, err := vfs.Default.OpenDir(parent)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// OpenPebbleOn opens a store in a directory, which exists, of a file system that may
// be another than the machine's. Tests tune the database to do in little time what it
// does in years.
func OpenPebbleOn(fs vfs.FS, dir string, logger *slog.Logger, tune ...func(*pebble.Options)) (_ *Pebble, err error) {
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		if lockedElsewhere(err) {
			err = fmt.Errorf("%w (%v)", ErrInUse, err)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	standing := false // Pebble's goroutines are left standing, with all that is theirs
	defer func() {
		if err != nil && !standing {
			lock.Close()
		}
	}()
	log := &pebbleLog{logger: logger, dir: dir, failed: make(chan struct{})}
	w, err := openWitness(fs, dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil && !standing {
			w.close()
		}
	}()
	opts := &pebble.Options{
		FS: namedFS{failingFS{fs, log.Fatalf}}, Lock: lock, Logger: log,
		// Pinned: a library update must not turn the files into something that the
		// holdfast of yesterday cannot read. This one's log says up to where it has been
		// synced, so that damage further up is not taken for its end.
		FormatMajorVersion: pebble.FormatWALSyncChunks,
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { log.Fatalf("in the background: %w", err) },
			DataCorruption:  func(i pebble.DataCorruptionInfo) { log.Fatalf("%w: %s: %w", ErrDamaged, i.Path, i.Details) },
		},
	}
	for _, f := range tune {
		f(opts)
	}
	p := &Pebble{dir: dir, lock: lock, log: log, witness: w}
	err = p.do(func() (err error) {
		p.db, err = pebble.Open(dir, opts)
		return err
	})
	select {
	case <-log.failed:
		standing = true
		return nil, err
	default:
	}
	if err != nil {
		return nil, openError(err)
	}
	return p, nil
}

// do calls f, which uses the database. Pebble reports a failed write or sync by calling
// its logger's Fatalf, which must not return (it would go on as if nothing were wrong),
// and which some other goroutine may do while this one waits for it. So f is called by a
// goroutine that can be left behind. Some damage Pebble takes for a bug of its own.
func (p *Pebble) do(f func() error) error {
	select {
	case <-p.log.failed:
		return p.log.err
	default:
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				done <- fmt.Errorf("%w: %v", ErrDamaged, r)
			}
		}()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-p.log.failed:
		return p.log.err
	}
}

// openError says which of Pebble's errors is about what is in the files.
func openError(err error) error {
	var path *os.PathError
	var errno syscall.Errno
	switch {
	case strings.Contains(err.Error(), "unknown format major version"):
		return fmt.Errorf("%w: %w; use the version of holdfast that wrote it", ErrFormat, err)
	case errors.As(err, &path) && !errors.Is(err, os.ErrNotExist), errors.As(err, &errno), errors.Is(err, ErrDamaged):
		return err
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

func lockedElsewhere(err error) bool {
	const sharingViolation = syscall.Errno(32) // Windows
	return errors.Is(err, syscall.EAGAIN) ||
		err.Error() == "lock held by current process" || // vfs has no sentinel for it
		runtime.GOOS == "windows" && errors.Is(err, sharingViolation)
}

// Load implements Store.
func (p *Pebble) Load(init Meta, visit Visitor) (Meta, error) {
	var meta Meta
	err := p.do(func() (err error) {
		meta, err = p.load(init, visit)
		return err
	})
	if errors.Is(err, pebble.ErrCorruption) && !errors.Is(err, ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return Meta{}, err
	}
	return meta, nil
}

func (p *Pebble) load(init Meta, visit Visitor) (meta Meta, err error) {
	if err := p.count(); err != nil {
		return Meta{}, err
	}
	value, closer, err := p.db.Get(keyFormat)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		if err := p.refuseForeign(); err != nil {
			return Meta{}, err
		}
		return init, p.Commit(fresh(init))
	case err != nil:
		return Meta{}, err
	}
	format, err := checkFormat(value)
	closer.Close()
	if err != nil {
		return Meta{}, err
	}
	it, err := p.db.NewIter(nil)
	if err != nil {
		return Meta{}, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err == nil {
			err = dispatch(it.Key(), value, &meta, visit)
		}
		if err != nil {
			it.Close()
			return Meta{}, err
		}
	}
	if err := it.Close(); err != nil {
		return Meta{}, err
	}
	if format != Format {
		var b Batch
		b.putFormat()
		return meta, p.Commit(&b)
	}
	return meta, nil
}

// count reads how many commits there are and compares that with the witness. The
// database itself cannot tell a log that was cut off by a power failure, which is
// harmless, from one that has lost its end since.
func (p *Pebble) count() error {
	value, closer, err := p.db.Get(keyCommits)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		// Fresh, or of format 1.
	case err != nil:
		return err
	default:
		if p.commits, err = decodeCommits(value); err != nil {
			return err
		}
		closer.Close()
	}
	if p.witness.commits > p.commits {
		return fmt.Errorf("%w: it ends with commit %d, but commit %d was acknowledged: the end of its log is lost, or a file is, "+
			"or it is a copy made while the server ran; restore a backup, or remove %s to go on without what is lost",
			ErrDamaged, p.commits, p.witness.commits, p.witness.name)
	}
	return p.witness.record(p.commits) // a power failure may have left it behind
}

// refuseForeign fails if the database holds anything: with no format of ours, it is
// not ours.
func (p *Pebble) refuseForeign() error {
	it, err := p.db.NewIter(nil)
	if err != nil {
		return err
	}
	if it.First() {
		err = fmt.Errorf("%w: it has no format: it is a Pebble database of another program, or has lost a file", ErrFormat)
	}
	return errors.Join(err, it.Close())
}

// Commit implements Store.
func (p *Pebble) Commit(b *Batch) error {
	number := p.commits + 1
	err := p.do(func() error {
		batch := p.db.NewBatchWithSize(len(b.buf) + 16*len(b.changes) + 64)
		err := b.each(func(key, value []byte) error {
			if value == nil {
				return batch.Delete(key, nil)
			}
			return batch.Set(key, value, nil)
		})
		if err == nil {
			err = batch.Set(keyCommits, binary.BigEndian.AppendUint64(nil, number), nil)
		}
		if err == nil {
			err = batch.Commit(pebble.Sync)
		}
		return errors.Join(err, batch.Close())
	})
	if err != nil {
		return err
	}
	p.commits = number
	return p.witness.record(number)
}

// Close implements Store. After a fatal error Pebble cannot be closed: one of its
// goroutines stands still with its locks held, so that nothing can be thrown away
// that the failed write was to replace. Its files and its lock on the directory are
// released when the process ends.
func (p *Pebble) Close() error {
	err := p.do(p.db.Close)
	select {
	case <-p.log.failed:
		return err
	default:
		return errors.Join(err, p.witness.close(), p.lock.Close())
	}
}

// pebbleLog passes Pebble's messages on and turns a fatal one into an error.
type pebbleLog struct {
	logger *slog.Logger
	dir    string
	once   sync.Once
	failed chan struct{} // closed when err is set
	err    error
}

func (l *pebbleLog) Infof(format string, args ...any) {
	l.logger.Debug("pebble: " + fmt.Sprintf(format, args...))
}

func (l *pebbleLog) Errorf(format string, args ...any) {
	l.logger.Error("pebble: " + fmt.Sprintf(format, args...))
}

// Fatalf never returns, as Pebble expects; see Commit.
func (l *pebbleLog) Fatalf(format string, args ...any) {
	l.once.Do(func() {
		l.err = fmt.Errorf("%s: %w", l.dir, fmt.Errorf(format, args...))
		l.logger.Error("pebble: " + l.err.Error())
		close(l.failed)
	})
	select {}
}

// privateFS makes files and directories that only their owner can read. It changes
// the mode after creation because the umask is the whole process's, not ours to set.
type privateFS struct{ vfs.FS }

func (p privateFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := private(name)(p.FS.Create(name, c))
	if err != nil {
		return nil, err
	}
	return withRoom(name, f), nil
}

func (p privateFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return private(name)(p.FS.OpenReadWrite(name, c, opts...))
}

func (p privateFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return private(newname)(p.FS.ReuseForWrite(oldname, newname, c))
}

func private(name string) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, err
		}
		if err := os.Chmod(name, 0o600); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
}

func (p privateFS) MkdirAll(dir string, _ os.FileMode) error {
	if err := p.FS.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

func (p privateFS) Lock(name string) (io.Closer, error) {
	c, err := p.FS.Lock(name)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, 0o600); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (p privateFS) Unwrap() vfs.FS { return p.FS }
