package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A witness knows from outside the database how many commits it must have. Pebble's log
// may end anywhere after a power failure, so if it is cut short later, or a bit of its
// last record flips, Pebble takes that for such an end and the commits behind it are
// gone without a word. The witness is what contradicts.
//
// It is written behind the sync and before the commit returns, and never synced: it costs
// a copy to the page cache, and survives the process. After a power failure it may be
// older than the database, and proves less, but it is never newer. If it is damaged
// itself, it proves nothing.
type witness struct {
	name    string
	file    vfs.File
	commits uint64 // what the file said when it was opened
}

// witnessFile is a name that Pebble does not know, and leaves alone.
const witnessFile = "committed"

const witnessMagic = "holdfast"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func openWitness(fs vfs.FS, dir string) (*witness, error) {
	w := &witness{name: fs.PathJoin(dir, witnessFile)}
	var err error
	if w.commits, err = readWitness(fs, w.name); err != nil {
		return nil, err
	}
	if w.file, err = fs.OpenReadWrite(w.name, vfs.WriteCategoryUnspecified); err != nil {
		return nil, fmt.Errorf("open %s: %w", w.name, err)
	}
	return w, nil
}

func readWitness(fs vfs.FS, name string) (uint64, error) {
	f, err := fs.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	defer f.Close()
	var b [20]byte
	if _, err := f.ReadAt(b[:], 0); err != nil || string(b[:8]) != witnessMagic ||
		crc32.Checksum(b[:16], castagnoli) != binary.BigEndian.Uint32(b[16:]) {
		return 0, nil
	}
	return binary.BigEndian.Uint64(b[8:]), nil
}

func (w *witness) record(commits uint64) error {
	b := append(make([]byte, 0, 20), witnessMagic...)
	b = binary.BigEndian.AppendUint64(b, commits)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	if _, err := w.file.WriteAt(b, 0); err != nil {
		return fmt.Errorf("write %s: %w", w.name, err)
	}
	return nil
}

func (w *witness) close() error { return w.file.Close() }
