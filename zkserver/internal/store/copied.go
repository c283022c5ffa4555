package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"
	"time"
)

// A copyMark is a file that says that the directory is a copy that BackUp has made, and which batch is its last
// one. A copy has no other witness of its end. Every byte of a copy has a checksum, in this file or in a batch, so
// every damage is detected. The first start on the copy removes the file, see Journal.Restored.
type copyMark struct {
	last     uint64
	at       time.Time // when the copy was made
	accepted bool      // somebody has accepted by hand what is there
}

const (
	markFile = "copied"
	markSize = 28

	// markAccepted is the word that a person writes into the file to accept a copy that is not whole.
	markAccepted = "accepted"
)

func (m *copyMark) encode() []byte {
	b := append(make([]byte, 0, markSize), fileMagic...)
	b = binary.BigEndian.AppendUint64(b, m.last)
	b = binary.BigEndian.AppendUint64(b, uint64(m.at.UnixNano()))
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

// parseMark returns nil if b is neither the bytes of a mark nor the word that accepts a copy.
func parseMark(b []byte) *copyMark {
	switch {
	case strings.TrimSpace(string(b)) == markAccepted:
		return &copyMark{accepted: true}
	case len(b) != markSize || string(b[:8]) != fileMagic || crc32.Checksum(b[:24], castagnoli()) != binary.BigEndian.Uint32(b[24:]):
		return nil
	}
	return &copyMark{last: binary.BigEndian.Uint64(b[8:]), at: time.Unix(0, int64(binary.BigEndian.Uint64(b[16:])))}
}

// readMark returns the mark in dir, or nil if dir is no copy.
func readMark(dir FS) (*copyMark, error) {
	f, err := dir.Open(markFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, 2*markSize)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	m := parseMark(b[:n])
	if m == nil {
		err := fmt.Errorf("%w: %s is damaged, and only it says where the copy ends; restore another backup, or %s",
			ErrDamaged, dir.Path(markFile), byHand(dir))
		return nil, err
	}
	return m, nil
}

// byHand returns what a person does to continue without batches that are lost.
func byHand(dir FS) string {
	if f, err := dir.Open(markFile); err == nil {
		f.Close()
		return fmt.Sprintf("write the word %s into %s to continue with what is there", markAccepted, dir.Path(markFile))
	}
	return fmt.Sprintf("remove %s to continue without the lost batches", dir.Path(witnessFile))
}

// check returns an error if the copy has lost its end. Its last whole batch ends at byte off of the file with this name.
func (m *copyMark) check(dir FS, last uint64, name string, off int64) error {
	if m.accepted || m.last <= last {
		return nil
	}
	return fmt.Errorf("%w: %s ends at byte %d with batch %d, the last whole one, but the backup had batch %d; restore another backup, or %s",
		ErrDamaged, dir.Path(name), off, last, m.last, byHand(dir))
}

// writeMark writes a mark and syncs it.
func writeMark(dir FS, m copyMark) error {
	f, err := dir.Create(markFile)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(m.encode(), 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Restored implements Store. It removes the mark of a copy, so that the next start takes the store for no copy.
func (j *Journal) Restored() error {
	if err := j.fs.Remove(markFile); err != nil {
		return err
	}
	return j.fs.SyncDir()
}
