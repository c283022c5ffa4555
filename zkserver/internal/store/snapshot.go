package store

import (
	"errors"
	"io/fs"
	"runtime"
	"slices"
)

// A segment is the valid part of a journal: its batches from first to next-1.
type segment struct {
	number, first, next uint64
	bytes               int64 // up to the end of the last batch
}

// stopped returns errStopped if stop is closed.
func stopped(stop chan struct{}) error {
	select {
	case <-stop:
		return errStopped
	default:
		return nil
	}
}

// each calls f for every change in order. It returns where the last batch ends. When stop is closed, it returns
// errStopped.
func (s segment) each(dir FS, stop chan struct{}, f func(key, value []byte) error) (end int64, err error) {
	r, err := openReader(dir, kindJournal, s.number)
	if err != nil {
		return 0, err
	}
	defer r.close()
	for n := s.first; n < s.next; n++ {
		b, ok, err := r.next(n)
		if err == nil && !ok {
			err = damaged(dir, r, n)
		}
		if err == nil {
			err = stopped(stop)
		}
		if err == nil {
			err = r.each(b, f)
		}
		if err != nil {
			return 0, err
		}
	}
	return r.off, nil
}

// eachOfSnapshot calls f for every key and its value. A batch without changes ends the snapshot. When
// stop is closed, it returns errStopped.
func eachOfSnapshot(dir FS, number uint64, stop chan struct{}, f func(key, value []byte) error) error {
	r, err := openReader(dir, kindSnapshot, number)
	if err != nil {
		return err
	}
	defer r.close()
	for n := uint64(1); ; n++ {
		b, err := r.must(n)
		if err != nil || len(b) == 0 {
			return err
		}
		if err := stopped(stop); err != nil {
			return err
		}
		if err := r.each(b, f); err != nil {
			return err
		}
	}
}

// merge calls f once for every key that has a value in the state after segments, in no
// order. The segments follow the snapshot with this number; 0 is none. merge holds only
// the keys of the segments in memory. When stop is closed, it returns errStopped.
func merge(dir FS, snapshot uint64, segments []segment, stop chan struct{}, f func(key, value []byte) error) error {
	latest := make(map[string]int) // the index of the last change of each key
	count := 0
	for _, s := range segments {
		_, err := s.each(dir, stop, func(key, _ []byte) error {
			latest[string(key)] = count
			count++
			return nil
		})
		if err != nil {
			return err
		}
	}
	if snapshot > 0 {
		err := eachOfSnapshot(dir, snapshot, stop, func(key, value []byte) error {
			if _, changed := latest[string(key)]; changed || value == nil { // a part that format 3 did not have
				return nil
			}
			return f(key, value)
		})
		if err != nil {
			return err
		}
	}
	count = 0
	for _, s := range segments {
		_, err := s.each(dir, stop, func(key, value []byte) error {
			count++
			if value == nil || latest[string(key)] != count-1 {
				return nil
			}
			return f(key, value)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// compacted is the result of a compaction. If it has merged, the snapshot with this number replaces the old
// snapshot and the first segments.
type compacted struct {
	merged    bool
	number    uint64
	size      int64
	segments  int
	leftovers []string // replaced files that it could not remove
	err       error
}

// errStopped is the error of a compaction that Close has stopped.
var errStopped = errors.New("stopped")

// startCompaction starts a goroutine that removes leftovers, merges a snapshot and segments, if there are
// any, into the next snapshot, and removes them. No other goroutine uses these files any more. The goroutine
// ends when it has sent its result, and soon after stop is closed.
func startCompaction(dir FS, snapshot uint64, segments []segment, leftovers []string, stop chan struct{}) chan compacted {
	done := make(chan compacted, 1)
	segments, leftovers = slices.Clone(segments), slices.Clone(leftovers)
	go func() {
		var c compacted
		defer func() { done <- c }()
		if c.leftovers, c.err = removeAll(dir, leftovers); c.err != nil || len(segments) == 0 {
			return
		}
		c.number, c.segments = segments[len(segments)-1].number, len(segments)
		if c.size, c.err = writeSnapshot(dir, snapshot, segments, stop); c.err == nil {
			c.merged = true
			c.leftovers, c.err = removeAll(dir, replaced(snapshot, segments))
		}
	}()
	return done
}

// replaced returns the files that a snapshot of the state after segments replaces.
func replaced(snapshot uint64, segments []segment) (names []string) {
	if snapshot > 0 {
		names = append(names, fileName(kindSnapshot, snapshot))
	}
	for _, s := range segments {
		names = append(names, fileName(kindJournal, s.number))
	}
	return names
}

// removeAll removes files. A missing file is no error. It returns the files that it has not removed.
func removeAll(dir FS, names []string) ([]string, error) {
	for i, name := range names {
		if err := dir.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return names[i:], err
		}
	}
	return nil, nil
}

// writeSnapshot writes the snapshot of the state after segments and returns its size.
func writeSnapshot(dir FS, snapshot uint64, segments []segment, stop chan struct{}) (size int64, err error) {
	last := segments[len(segments)-1]
	name := fileName(kindSnapshot, last.number)
	f, err := makeFile(dir, name, func(f File) error {
		w := snapshotWriter{file: f, head: newHeader(kindSnapshot, last.number, last.next), stop: stop}
		if err := w.write(w.head.encode()); err != nil {
			return err
		}
		if err := merge(dir, snapshot, segments, stop, w.put); err != nil {
			return err
		}
		if !w.batch.Empty() {
			if err := w.flush(); err != nil {
				return err
			}
		}
		w.batch.buf = make([]byte, batchHeader) // the end
		err := w.flush()
		size = w.off
		return err
	})
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = nameFile(dir, name)
	}
	return size, err
}

// A snapshotWriter writes the keys of a snapshot, in batches.
type snapshotWriter struct {
	file   File
	head   header
	stop   chan struct{}
	batch  Batch
	number uint64 // of the last batch
	off    int64
	synced int64 // bytes
}

func (w *snapshotWriter) put(key, value []byte) error {
	w.batch.put(key, value)
	if len(w.batch.buf) < 1<<18 {
		return nil
	}
	return w.flush()
}

func (w *snapshotWriter) flush() error {
	if err := stopped(w.stop); err != nil {
		return err
	}
	w.number++
	finish(w.batch.buf, w.head.mark, w.number, 0)
	if err := w.write(w.batch.buf); err != nil {
		return err
	}
	w.batch.buf = w.batch.buf[:0]
	runtime.Gosched() // let commits run
	return nil
}

// write appends b. It syncs every few megabytes, so that no commit waits for the whole
// snapshot to reach the disk.
func (w *snapshotWriter) write(b []byte) error {
	const atOnce = 4 << 20
	if _, err := w.file.WriteAt(b, w.off); err != nil {
		return err
	}
	w.off += int64(len(b))
	if w.off-w.synced < atOnce {
		return nil
	}
	w.synced = w.off
	return w.file.Sync()
}
