package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
)

// A witness is a file that has the number of the last batch, outside the journals. After a power
// failure, the last journal may end anywhere. A journal that was cut short later, or whose last
// batch has a flipped bit, looks the same; the witness tells them apart.
//
// The witness is written after each batch, before Commit returns, and never synced. So it costs a
// copy to the page cache, and survives the process. After a power failure it may be older
// than the journal, and proves less. A damaged witness proves nothing.
type witness struct {
	file    File
	synced  uint64 // number of the last batch that was synced
	written uint64 // number of the last batch
	boot    BootID // written is valid while the machine has this boot id
}

const (
	witnessFile = "committed"
	witnessSize = 44
)

// openWitness reads the witness. A missing or damaged one has zeros, which prove nothing.
func openWitness(dir FS) (*witness, error) {
	w := new(witness)
	var err error
	switch w.file, err = dir.Open(witnessFile); {
	case errors.Is(err, fs.ErrNotExist):
		return w, nil // record makes it
	case err != nil:
		return nil, err
	}
	b := make([]byte, witnessSize)
	switch _, err := w.file.ReadAt(b, 0); {
	case errors.Is(err, io.EOF): // too short
	case err != nil:
		return nil, errors.Join(err, w.file.Close())
	case string(b[:8]) == fileMagic && crc32.Checksum(b[:40], castagnoli()) == binary.BigEndian.Uint32(b[40:]):
		w.synced, w.written = binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])
		copy(w.boot[:], b[24:])
	}
	return w, nil
}

// check returns an error if the witness knows a batch after the last one. The last one ends at byte
// off of the file with this name.
func (w *witness) check(dir FS, last uint64, name string, off int64) error {
	must, why := w.synced, "was acknowledged"
	if w.boot == dir.Boot() && w.boot != (BootID{}) && w.written > must {
		must, why = w.written, "was acknowledged since the machine started"
	}
	if must <= last {
		return nil
	}
	return fmt.Errorf("%w: %s ends at byte %d with batch %d, the last whole one, but batch %d %s: the end of the file or a whole file is lost, "+
		"or the directory was copied while the server ran; restore a backup, or %s",
		ErrDamaged, dir.Path(name), off, last, must, why, byHand(dir))
}

// record writes the numbers, and makes the file if it does not exist. It does not sync.
func (w *witness) record(dir FS, synced, written uint64, boot BootID) (err error) {
	if w.file == nil {
		if w.file, err = dir.Create(witnessFile); err != nil {
			return err
		}
	}
	b := append(make([]byte, 0, witnessSize), fileMagic...)
	b = binary.BigEndian.AppendUint64(b, synced)
	b = binary.BigEndian.AppendUint64(b, written)
	b = append(b, boot[:]...)
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
	_, err = w.file.WriteAt(b, 0)
	return err
}

func (w *witness) close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
