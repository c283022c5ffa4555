package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

const (
	// journalRoom is how many bytes a journal reserves at a time. A snapshot is not worth while for
	// journals up to this length.
	journalRoom = 4 << 20

	// maxSegments bounds the files that starts leave when little is written.
	maxSegments = 8
)

// A Journal is a store in a directory. The package comment describes its design. It is not safe for
// concurrent use.
type Journal struct {
	fs   FS
	held []io.Closer // the lock and the directory; none if nobody else can open fs
	room int64
	boot BootID
	err  error // why no further commit is possible

	// The current journal.
	head header
	file File
	off  int64 // end of its last batch
	size int64 // reserved

	last    uint64 // number of the last batch
	synced  uint64 // the number of the last batch that is known to be durable
	witness *witness
	copied  *copyMark // nil if this is no copy

	snapshot     uint64    // number of the snapshot, 0 if there is none
	snapshotSize int64     // bytes
	segments     []segment // the complete journals after the snapshot
	leftovers    []string  // files that a snapshot has replaced

	due        bool           // the next Commit begins another journal
	compaction chan compacted // gets the result of the goroutine; nil if there is none
	stop       chan struct{}  // closed by Close

	trouble  error         // why the last attempt to make a journal or a snapshot has failed
	failures int64         // attempts that failed
	again    time.Time     // when the next attempt is due
	wait     time.Duration // between the last two
}

// OpenOn opens the store in fs, which nobody else has open. Journals reserve room bytes at
// a time. Load reads the store. OpenJournal opens a store in a directory of the machine.
func OpenOn(fs FS, room int64) *Journal {
	return &Journal{fs: fs, room: room, boot: fs.Boot(), witness: new(witness), stop: make(chan struct{}),
		err: errors.New("the store has not been loaded")}
}

// Load implements Store. It does not change a directory that it refuses.
func (j *Journal) Load(init Meta, visit Visitor) (Meta, error) {
	meta, err := j.load(init, visit)
	if j.err = err; err != nil {
		return Meta{}, err
	}
	if j.last == 0 {
		return init, j.Commit(fresh(init))
	}
	j.due = j.worthASnapshot()
	return meta, nil
}

// Commit implements Store. It appends the batch and, unless SyncLater is set, syncs the journal.
// The sync makes earlier batches with SyncLater durable, too.
func (j *Journal) Commit(b *Batch) error {
	if j.err == nil {
		j.err = j.commit(b)
	}
	return j.err
}

func (j *Journal) commit(b *Batch) error {
	if err := j.compact(); err != nil {
		return err
	}
	if b.Empty() {
		b.buf = make([]byte, batchHeader)
	}
	end := j.off + int64(len(b.buf))
	switch {
	case len(b.buf) > MaxBatch:
		return fmt.Errorf("write %s: a batch of %d bytes; the limit is %d", j.fs.Path(j.name()), len(b.buf), MaxBatch)
	case end > j.size:
		size := (end + j.room - 1) / j.room * j.room
		if err := j.file.Allocate(size); err != nil {
			return j.named(err)
		}
		j.size = size
	}
	finish(b.buf, j.head.mark, j.last+1, j.synced)
	if _, err := j.file.WriteAt(b.buf, j.off); err != nil {
		return j.named(err)
	}
	j.off = end
	j.last++
	if !b.SyncLater || !j.SyncsLater() {
		if err := j.sync(); err != nil {
			return err
		}
	}
	j.due = j.worthASnapshot()
	return j.witness.record(j.fs, j.synced, j.last, j.boot)
}

// Waits implements Store.
func (j *Journal) Waits() bool { return j.due || !j.SyncsLater() }

// SyncsLater reports whether Commit obeys SyncLater. It does not where there is no boot id.
func (j *Journal) SyncsLater() bool { return j.boot != BootID{} }

// sync makes all batches durable.
func (j *Journal) sync() error {
	if err := j.file.Sync(); err != nil {
		return j.named(err)
	}
	j.synced = j.last
	return nil
}

func (j *Journal) name() string { return fileName(kindJournal, j.head.number) }

// named corrects the path in an error of j.file, which had another name when it was opened.
func (j *Journal) named(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		e.Path = j.fs.Path(j.name())
	}
	return err
}

// Trouble returns why the last attempt to make a snapshot or the next journal has failed, or nil, and how many
// attempts have failed. Commit works nevertheless, and makes the next attempt when it is due. Like Commit,
// Trouble is not safe for concurrent use.
func (j *Journal) Trouble() (failures int64, err error) { return j.failures, j.trouble }

const (
	firstRetry = time.Second
	maxRetry   = time.Minute
)

// attempted records the outcome of an attempt to make a file. It returns err if another attempt would fail, too:
// the store is damaged, or somebody has removed its files or its directory.
func (j *Journal) attempted(err error) error {
	switch j.trouble = err; {
	case err == nil:
		j.wait = 0
	case errors.Is(err, ErrDamaged), errors.Is(err, fs.ErrNotExist):
		return err
	default:
		j.failures++
		j.wait = min(max(2*j.wait, firstRetry), maxRetry)
		j.again = time.Now().Add(j.wait)
	}
	return nil
}

// compact takes the result of the last merge. If a merge is due, it starts one of the complete
// journals into a new snapshot. Only an error of the current journal, or damage, is an error here.
func (j *Journal) compact() error {
	select {
	case c := <-j.compaction:
		if err := j.take(c); err != nil {
			return err
		}
	default:
	}
	if !j.due {
		return nil
	}
	// A journal without a batch goes on, and so does one while the complete journals wait for another attempt.
	if j.last >= j.head.first && (j.trouble == nil || len(j.segments) == 0) {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	if len(j.segments)+len(j.leftovers) > 0 {
		j.compaction = startCompaction(j.fs, j.snapshot, j.segments, j.leftovers, j.stop)
	}
	return nil
}

// worthASnapshot reports whether the journals are longer than the snapshot, or too many, or an attempt has
// failed. It returns false while a merge is under way, and until the next attempt is due.
func (j *Journal) worthASnapshot() bool {
	length := j.off
	for _, s := range j.segments {
		length += s.bytes
	}
	switch {
	case j.compaction != nil:
		return false
	case j.trouble != nil:
		return !time.Now().Before(j.again)
	}
	return length > max(j.room, j.snapshotSize) || len(j.segments) >= maxSegments
}

// take replaces the merged files by the result of a merge.
func (j *Journal) take(c compacted) error {
	j.compaction = nil
	if c.merged {
		j.snapshot, j.snapshotSize = c.number, c.size
		j.segments = j.segments[c.segments:]
	}
	j.leftovers = c.leftovers
	if errors.Is(c.err, errStopped) {
		return c.err
	}
	return j.attempted(c.err)
}

// rotate completes the current journal and begins the next one. If it cannot make the file of the next one,
// the current journal goes on.
func (j *Journal) rotate() error {
	next, err := j.prepare(j.head.number+1, j.boot)
	if err := j.attempted(err); err != nil || next.file == nil {
		return err
	}
	// The header of the next journal says that these batches are durable.
	if err := j.sync(); err != nil {
		return errors.Join(err, next.file.Close())
	}
	last, s := j.file, segment{j.head.number, j.head.first, j.last + 1, j.off}
	if err := j.begin(next); err != nil {
		return errors.Join(err, last.Close())
	}
	j.segments = append(j.segments, s)
	return last.Close()
}

// A nextJournal is a journal that does not have its name yet.
type nextJournal struct {
	head header
	file File
}

// prepare makes the file of the journal with this number, after batch j.last. before is the machine's boot id
// at the time when that batch was written.
func (j *Journal) prepare(number uint64, before BootID) (nextJournal, error) {
	h := newHeader(kindJournal, number, j.last+1)
	h.boot, h.before = j.boot, before
	f, err := makeFile(j.fs, fileName(kindJournal, number), func(f File) error {
		if _, err := f.WriteAt(h.encode(), 0); err != nil {
			return err
		}
		return f.Allocate(j.room)
	})
	return nextJournal{h, f}, err
}

// begin makes next the current journal. The batches before it must be durable.
func (j *Journal) begin(next nextJournal) error {
	j.head, j.file, j.off, j.size = next.head, next.file, fileHeader, j.room
	return nameFile(j.fs, j.name())
}

// makeFile makes a file under a temporary name, lets write fill it, and syncs it. If that fails, it removes the
// file.
func makeFile(fs FS, name string, write func(File) error) (File, error) {
	f, err := fs.Create(name + temporary)
	if err != nil {
		return nil, err
	}
	if err = f.Truncate(0); err == nil { // an earlier process may have left one
		err = write(f)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		err = errors.Join(err, f.Close())
		_ = fs.Remove(name + temporary) // otherwise the next attempt or the next start does it
		return nil, err
	}
	return f, nil
}

// nameFile gives a file that makeFile has made its name. The name is durable when nameFile returns.
func nameFile(fs FS, name string) error {
	if err := fs.Rename(name+temporary, name); err != nil {
		return err
	}
	return fs.SyncDir()
}

// Close implements Store. It makes batches with SyncLater durable.
func (j *Journal) Close() error {
	close(j.stop)
	var err error
	if j.compaction != nil {
		if err = j.take(<-j.compaction); errors.Is(err, errStopped) {
			err = nil
		}
	}
	if j.file != nil {
		if j.err == nil && j.synced < j.last {
			if err = errors.Join(err, j.sync()); err == nil {
				err = j.witness.record(j.fs, j.synced, j.last, j.boot)
			}
		}
		if j.err == nil && err == nil {
			// A closed store needs no reserved space. The result does not matter if this fails or
			// is lost.
			j.file.Truncate(j.off)
		}
		err = errors.Join(err, j.named(j.file.Close()))
	}
	err = errors.Join(err, j.witness.close())
	for _, c := range j.held {
		err = errors.Join(err, c.Close())
	}
	j.err = errors.Join(j.err, errClosed)
	return err
}

var errClosed = errors.New("the store is closed")
