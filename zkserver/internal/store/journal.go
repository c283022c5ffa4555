package store

import (
	"errors"
	"fmt"
	"io"
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

	snapshot     uint64    // number of the snapshot, 0 if there is none
	snapshotSize int64     // bytes
	segments     []segment // the complete journals after the snapshot

	due        bool           // the next Commit begins another journal
	compaction chan compacted // gets the result of the goroutine; nil if there is none
	stop       chan struct{}  // closed by Close
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
			return err
		}
		j.size = size
	}
	finish(b.buf, j.head.mark, j.last+1, j.synced)
	if _, err := j.file.WriteAt(b.buf, j.off); err != nil {
		return err
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
		return err
	}
	j.synced = j.last
	return nil
}

func (j *Journal) name() string { return fileName(kindJournal, j.head.number) }

// compact takes the result of the last merge. If a merge is due, it starts one of the complete
// journals into a new snapshot.
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
	if j.last >= j.head.first { // otherwise it has no batch yet
		if err := j.rotate(); err != nil {
			return err
		}
	}
	j.compaction = startCompaction(j.fs, j.snapshot, j.segments, j.stop)
	return nil
}

// worthASnapshot reports whether the journals are longer than the snapshot, or too many. It returns
// false while a merge is under way.
func (j *Journal) worthASnapshot() bool {
	length := j.off
	for _, s := range j.segments {
		length += s.bytes
	}
	return j.compaction == nil && (length > max(j.room, j.snapshotSize) || len(j.segments) >= maxSegments)
}

// take replaces the merged files by the result of a merge.
func (j *Journal) take(c compacted) error {
	j.compaction = nil
	if c.err != nil {
		return c.err
	}
	j.snapshot, j.snapshotSize = c.number, c.size
	j.segments = j.segments[c.segments:]
	return nil
}

// rotate completes the current journal and begins the next one. It syncs first, because the header
// of the next journal says that these batches are durable.
func (j *Journal) rotate() error {
	if err := j.sync(); err != nil {
		return err
	}
	f := j.file
	j.file = nil
	if err := f.Close(); err != nil {
		return err
	}
	j.segments = append(j.segments, segment{j.head.number, j.head.first, j.last + 1, j.off})
	return j.begin(j.head.number+1, j.boot)
}

// begin makes the journal with this number, after batch j.last, which must be durable. before is the
// machine's boot id at the time when that batch was written.
func (j *Journal) begin(number uint64, before BootID) error {
	h := newHeader(kindJournal, number, j.last+1)
	h.boot, h.before = j.boot, before
	name := fileName(kindJournal, number)
	err := makeFile(j.fs, name, func(f File) error {
		if _, err := f.WriteAt(h.encode(), 0); err != nil {
			return err
		}
		return f.Allocate(j.room)
	})
	if err != nil {
		return err
	}
	j.head, j.off, j.size = h, fileHeader, j.room
	j.file, err = j.fs.Open(name)
	return err
}

// makeFile makes a file and lets write fill it. The file gets its name when it is complete and
// synced. The name is durable when makeFile returns.
func makeFile(fs FS, name string, write func(File) error) error {
	f, err := fs.Create(name + temporary)
	if err != nil {
		return err
	}
	if err = f.Truncate(0); err == nil { // an earlier process may have left one
		err = write(f)
	}
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
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
		err = errors.Join(err, j.file.Close())
	}
	err = errors.Join(err, j.witness.close())
	for _, c := range j.held {
		err = errors.Join(err, c.Close())
	}
	j.err = errors.Join(j.err, errClosed)
	return err
}

var errClosed = errors.New("the store is closed")
