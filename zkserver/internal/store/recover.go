package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// temporary is the suffix of an incomplete file's name.
const temporary = ".tmp"

// guard is the name of an empty file. It keeps older versions of holdfast from making an
// empty Pebble database beside the journals: they refuse a database of format 999.
const guard = "marker.format-version.000001.999"

func fileName(kind uint32, number uint64) string {
	if kind == kindSnapshot {
		return fmt.Sprintf("%08d.snapshot", number)
	}
	return fmt.Sprintf("%08d.journal", number)
}

// parseName is the inverse of fileName. It returns number 0 for any other name.
func parseName(name string) (kind uint32, number uint64) {
	stem, _, _ := strings.Cut(name, ".")
	number, _ = strconv.ParseUint(stem, 10, 64)
	for _, kind := range []uint32{kindJournal, kindSnapshot} {
		if number > 0 && name == fileName(kind, number) {
			return kind, number
		}
	}
	return 0, 0
}

// contents lists the files of a directory.
type contents struct {
	snapshot  uint64   // the last one; 0 if there is none
	journals  []uint64 // the journals after it, in order
	leftovers []string // incomplete files, and files that were replaced
	guarded   bool
}

// list sorts the files of dir. It refuses a directory of an older format.
func list(dir FS) (c contents, err error) {
	names, err := dir.List()
	if err != nil {
		return c, err
	}
	for _, name := range names {
		if kind, number := parseName(name); kind == kindSnapshot {
			c.snapshot = max(c.snapshot, number)
		}
	}
	for _, name := range names {
		kind, number := parseName(name)
		switch {
		case strings.HasPrefix(name, "MANIFEST-"), strings.HasPrefix(name, "OPTIONS-"), strings.HasPrefix(name, "marker.") && name != guard:
			return c, fmt.Errorf("%w: %s is from an older holdfast (format 1 or 2, this program reads %d and %d); move %s away to begin with an empty store, "+
				"or serve it with that version and copy the nodes with a client",
				ErrFormat, dir.Path(name), oldFormat, Format, dir.Path(""))
		case name == guard:
			c.guarded = true
		case strings.HasSuffix(name, temporary),
			kind == kindSnapshot && number < c.snapshot, kind == kindJournal && number <= c.snapshot:
			c.leftovers = append(c.leftovers, name)
		case kind == kindJournal:
			c.journals = append(c.journals, number)
		}
	}
	slices.Sort(c.journals)
	return c, nil
}

// load reads the directory, passes the state to visit, removes leftovers and begins a new journal. It changes
// nothing before it has read everything.
func (j *Journal) load(init Meta, visit Visitor) (meta Meta, err error) {
	meta, files, tail, err := j.read(visit)
	if err != nil {
		return meta, err
	}
	meta.Restarted = tail.boot != (BootID{}) && tail.boot != j.boot
	if m := j.copied; m != nil {
		if meta.Copied = m.at; m.accepted {
			meta.Copied = time.Unix(0, 0)
		}
	}

	// A full disk may have no room for the next journal while it has these. The names of the files that have
	// replaced some of them must be durable.
	if len(files.leftovers) > 0 {
		if err := j.fs.SyncDir(); err != nil {
			return meta, err
		}
		if _, err := removeAll(j.fs, files.leftovers); err != nil {
			return meta, err
		}
	}
	if err := tail.settle(j.fs); err != nil {
		return meta, err
	}
	j.synced = j.last
	if !files.guarded {
		f, err := j.fs.Create(guard)
		if err != nil {
			return meta, err
		}
		if err := f.Close(); err != nil {
			return meta, err
		}
	}
	number := j.snapshot + 1
	if n := len(j.segments); n > 0 {
		number = j.segments[n-1].number + 1
	}
	next, err := j.prepare(number, tail.boot)
	if err != nil {
		return meta, err
	}
	if err := j.begin(next); err != nil {
		return meta, err
	}
	return meta, j.witness.record(j.fs, j.synced, j.last, j.boot)
}

// examine finds out which files and batches there are, and whether there must be others. It changes nothing.
func (j *Journal) examine() (files contents, t tail, err error) {
	if j.witness, err = openWitness(j.fs); err != nil { // before the list: the files then have every batch that the witness knows
		j.witness = new(witness)
		return files, t, err
	}
	if j.copied, err = readMark(j.fs); err != nil {
		return files, t, err
	}
	if files, err = list(j.fs); err != nil {
		return files, t, err
	}
	t, err = j.survey(files)
	return files, t, err
}

// complete returns an error if there must be batches after the last one, which ends at byte off of the file with
// this name.
func (j *Journal) complete(name string, off int64) error {
	if m := j.copied; m != nil {
		if err := m.check(j.fs, j.last, name, off); err != nil || m.accepted {
			return err
		}
	}
	return j.witness.check(j.fs, j.last, name, off)
}

// read passes the state to visit and changes nothing.
func (j *Journal) read(visit Visitor) (meta Meta, files contents, t tail, err error) {
	if files, t, err = j.examine(); err != nil {
		return meta, files, t, err
	}
	err = merge(j.fs, j.snapshot, j.segments, nil, func(key, value []byte) error {
		return dispatch(key, value, &meta, visit)
	})
	return meta, files, t, err
}

// survey finds out which batches must exist, and sets snapshot, segments and last. It reads
// the headers of all files, and the batches of the last journal. It returns the end of the last
// journal.
func (j *Journal) survey(files contents) (t tail, err error) {
	next := uint64(1)
	if files.snapshot > 0 {
		r, err := openReader(j.fs, kindSnapshot, files.snapshot)
		if err != nil {
			return t, err
		}
		r.close()
		j.snapshot, j.snapshotSize, next = files.snapshot, r.size, r.head.first
	}
	missing := func(number uint64) error {
		return fmt.Errorf("%w: %s or the snapshot that replaces it is missing; restore a backup",
			ErrDamaged, j.fs.Path(fileName(kindJournal, number)))
	}
	for i, number := range files.journals {
		if want := files.snapshot + 1 + uint64(i); number != want {
			return t, missing(want)
		}
		r, err := openReader(j.fs, kindJournal, number)
		if err != nil {
			return t, err
		}
		r.close()
		first := r.head.first
		if i == 0 && first != next || first < next {
			return t, missing(number - 1)
		}
		if i > 0 {
			j.segments[i-1].next = first
		}
		j.segments = append(j.segments, segment{number: number, first: first, next: first, bytes: r.size})
		next = first
	}
	if len(j.segments) == 0 {
		if files.snapshot > 0 {
			return t, missing(files.snapshot + 1)
		}
		return t, j.complete(fileName(kindJournal, 1), 0)
	}
	s := &j.segments[len(j.segments)-1]
	if t, err = findTail(j.fs, s); err != nil {
		return t, err
	}
	j.last = s.next - 1
	if err := j.complete(t.name, s.bytes); err != nil {
		return t, err
	}
	if s.next == s.first { // an empty journal: the new journal replaces it
		j.segments = j.segments[:len(j.segments)-1]
	}
	return t, nil
}

// A tail is the end of the last journal, which may not be durable yet.
type tail struct {
	name     string // "" if there is no journal
	from, to int64  // bytes that no batch reports as synced
	boot     BootID // of the machine when the last batch was written
}

// findTail reads the last journal up to its end, which it sets in s. It leaves out the bytes that
// follow. If a later batch among them says that the missing one had been synced, the missing one is
// damaged, and the error wraps ErrDamaged.
func findTail(dir FS, s *segment) (t tail, err error) {
	r, err := openReader(dir, kindJournal, s.number)
	if err != nil {
		return t, err
	}
	defer r.close()
	t = tail{name: fileName(kindJournal, s.number), boot: r.head.before}
	var starts []int64 // of the batches that no later batch reports as synced
	for {
		start := r.off
		_, ok, err := r.next(s.next)
		if err != nil {
			return t, err
		}
		if !ok {
			break
		}
		starts = append(starts, start)
		s.next++
		t.boot = r.head.boot
		if first := s.next - uint64(len(starts)); r.synced >= first {
			starts = starts[min(r.synced+1-first, uint64(len(starts))):]
		}
	}
	s.bytes, t.from, t.to = r.off, r.off, r.off
	if len(starts) > 0 {
		t.from = starts[0]
	}
	later, err := provesSynced(r, s.next)
	if err != nil || later == 0 {
		return t, err
	}
	// A server that has the store open may have written the missing batch in the meantime. That batch
	// was complete before the later one was begun. See BackUp.
	now, _, err := r.batchAt(r.off)
	if err == nil && now != s.next {
		err = damaged(dir, r, s.next)
	}
	return t, err
}

// damaged returns the error for a journal whose batch with this number is damaged, while others after it are whole.
func damaged(dir FS, r *reader, number uint64) error {
	return fmt.Errorf("%w: %s, byte %d: batch %d is damaged, and later ones are there; the last whole one before it is %d; restore a backup, "+
		"or cut the file off there (truncate -s %d), remove the journals with larger numbers, and %s",
		ErrDamaged, r.path, r.off, number, number-1, r.off, byHand(dir))
}

// provesSynced searches the rest of the file of r for a batch that says that batch number
// had been synced. It returns the number of that batch, or 0 if there is none.
func provesSynced(r *reader, number uint64) (uint64, error) {
	pattern := binary.BigEndian.AppendUint64(nil, r.head.mark)
	window := make([]byte, min(1<<18, max(r.size-r.off, 0)))
	for off := r.off; off+batchHeader <= r.size; off += int64(len(window) - len(pattern) + 1) {
		n, err := r.file.ReadAt(window, off)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if window = window[:n]; n < len(pattern) {
			break // the file has shrunk
		}
		for at := 0; ; at++ {
			i := bytes.Index(window[at:], pattern)
			if i < 0 {
				break
			}
			at += i
			later, synced, err := r.batchAt(off + int64(at))
			if err != nil {
				return 0, err
			}
			if synced >= number {
				return later, nil
			}
		}
	}
	return 0, nil
}

// batchAt returns the numbers in the batch at off, or zeros if there is no batch.
func (r *reader) batchAt(off int64) (number, synced uint64, err error) {
	b := make([]byte, batchHeader, 1<<12)
	switch _, err := r.file.ReadAt(b, off); {
	case errors.Is(err, io.EOF):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	}
	length, ok := r.lengthOf(b, off)
	if !ok {
		return 0, 0, nil
	}
	b = append(b, make([]byte, length)...)
	if _, err := r.file.ReadAt(b[batchHeader:], off+batchHeader); err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	if !whole(b) {
		return 0, 0, nil
	}
	return binary.BigEndian.Uint64(b[12:]), binary.BigEndian.Uint64(b[20:]), nil
}

// settle makes the tail durable, since the next journal will rely on it. It writes the bytes
// again: after a failed sync, the page cache may have them and call them clean.
func (t tail) settle(dir FS) error {
	if t.name == "" {
		return nil
	}
	f, err := dir.Open(t.name)
	if err != nil {
		return err
	}
	err = rewrite(f, t.from, t.to)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// rewrite writes the bytes between from and to again.
func rewrite(f File, from, to int64) error {
	b := make([]byte, min(1<<18, to-from))
	for from < to {
		b = b[:min(int64(len(b)), to-from)]
		if _, err := f.ReadAt(b, from); err != nil {
			return err
		}
		if _, err := f.WriteAt(b, from); err != nil {
			return err
		}
		from += int64(len(b))
	}
	return nil
}
