package store

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// Replay passes the state of the snapshot in dir to visit, and then every change of the journals in its order. A record that is
// nil was removed. end is called after the snapshot, with 0, and after the changes of each batch, with its number. Replay
// changes nothing, and another process may have the store open and keep running.
func Replay(dir string, visit Visitor, end func(batch uint64) error) error {
	_, err := readStore(filepath.Join(dir, "store"), func(d readDir) (Summary, error) {
		files, err := openAtWork(d)
		if err != nil {
			return Summary{}, err
		}
		defer files.close()
		return Summary{}, files.replay(d, visit, end)
	})
	return err
}

// A reading has the open files of a store. That they are open keeps them from being removed.
type reading struct {
	snapshot *reader // nil: there is none
	journals []*reader
	segments []segment
}

func (f *reading) close() {
	if f.snapshot != nil {
		f.snapshot.close()
	}
	for _, r := range f.journals {
		r.close()
	}
}

// openAtWork opens the files of a store that another process may have open. It tries several times, as backUpAtWork does.
func openAtWork(dir FS) (f *reading, err error) {
	const attempts = 10
	for range attempts {
		if f, err = openFiles(dir); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrDamaged) {
			break
		}
	}
	return f, err
}

func openFiles(dir FS) (_ *reading, err error) {
	j := OpenOn(dir, journalRoom)
	f := new(reading)
	defer func() {
		if err = errors.Join(err, j.witness.close()); err != nil {
			f.close()
		}
	}()
	if _, _, err := j.examine(); err != nil {
		return nil, err
	}
	if j.snapshot > 0 {
		if f.snapshot, err = openReader(dir, kindSnapshot, j.snapshot); err != nil {
			return nil, err
		}
	}
	f.segments = j.segments
	for _, s := range j.segments {
		r, err := openReader(dir, kindJournal, s.number)
		if err != nil {
			return nil, err
		}
		f.journals = append(f.journals, r)
	}
	return f, nil
}

// replay is Replay for open files.
func (f *reading) replay(dir FS, visit Visitor, end func(batch uint64) error) error {
	var meta Meta
	take := func(key, value []byte) error { return dispatch(key, value, &meta, visit) }
	if f.snapshot != nil {
		for n := uint64(1); ; n++ {
			b, err := f.snapshot.must(n)
			if err != nil {
				return err
			}
			if len(b) == 0 {
				break
			}
			if err := f.snapshot.each(b, take); err != nil {
				return err
			}
		}
	}
	if err := end(0); err != nil {
		return err
	}
	for i, r := range f.journals {
		for n := f.segments[i].first; n < f.segments[i].next; n++ {
			b, ok, err := r.next(n)
			if err == nil && !ok {
				err = damaged(dir, r, n)
			}
			if err == nil {
				err = r.each(b, take)
			}
			if err == nil {
				err = end(n)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
