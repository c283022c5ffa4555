package store

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
)

// Numbers are big-endian. A checksum is the CRC-32C of all bytes before it in the header
// and, in a batch, of the changes after it.
const (
	fileMagic   = "holdfast"
	fileHeader  = 128 // bytes: magic, format, kind, number, mark, first, boot, before, zeros, checksum
	batchHeader = 32  // bytes: mark, length of the changes, number, synced, checksum

	// maxRead is the most bytes of changes in a batch of a file. Batches of format 3 could be as
	// long, and a node of such a store makes a long batch of a snapshot.
	maxRead = 1 << 30
)

// castagnoli returns the table of the checksums. It is not a variable, so that a process without a
// store does not compute it.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// The kinds of files.
const (
	kindJournal  = 'j'
	kindSnapshot = 's'
)

// A header is the beginning of every journal and every snapshot.
type header struct {
	kind   uint32
	format uint32
	number uint64
	mark   uint64 // random; every batch in the file begins with it
	first  uint64 // number of the first batch of a journal, or of the first after a snapshot
	boot   BootID // of a journal: of the machine while it was written
	before BootID // of a journal: of the machine when the batch before the first was written
}

func newHeader(kind uint32, number, first uint64) header {
	return header{kind: kind, format: Format, number: number, first: first, mark: rand.Uint64()}
}

func (h *header) encode() []byte {
	b := append(make([]byte, 0, fileHeader), fileMagic...)
	b = binary.BigEndian.AppendUint32(b, h.format)
	b = binary.BigEndian.AppendUint32(b, h.kind)
	for _, v := range [...]uint64{h.number, h.mark, h.first} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	b = append(append(b, h.boot[:]...), h.before[:]...)
	b = b[:fileHeader-4]
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

func decodeHeader(b []byte) (h header, err error) {
	sum := binary.BigEndian.Uint32(b[fileHeader-4:])
	h.format = binary.BigEndian.Uint32(b[8:])
	switch {
	case crc32.Checksum(b[:fileHeader-4], castagnoli()) != sum || string(b[:8]) != fileMagic:
		return h, fmt.Errorf("%w: its header is damaged; restore a backup", ErrDamaged)
	case h.format != Format && h.format != oldFormat:
		return h, fmt.Errorf("%w: its format is %d, this program reads %d and %d; use the version of holdfast that wrote it", ErrFormat, h.format, oldFormat, Format)
	}
	h.kind = binary.BigEndian.Uint32(b[12:])
	for i, v := range [...]*uint64{&h.number, &h.mark, &h.first} {
		*v = binary.BigEndian.Uint64(b[16+8*i:])
	}
	copy(h.boot[:], b[40:])
	copy(h.before[:], b[56:])
	return h, nil
}

// finish completes a batch whose changes are in place, after space for the header.
func finish(b []byte, mark, number, synced uint64) {
	binary.BigEndian.PutUint64(b, mark)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-batchHeader))
	binary.BigEndian.PutUint64(b[12:], number)
	binary.BigEndian.PutUint64(b[20:], synced)
	binary.BigEndian.PutUint32(b[28:], sumOf(b))
}

func sumOf(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:28], castagnoli()), castagnoli(), b[batchHeader:])
}

// whole reports whether b is an undamaged batch.
func whole(b []byte) bool { return binary.BigEndian.Uint32(b[28:]) == sumOf(b) }

// A reader reads the batches of a file in order.
type reader struct {
	file File
	path string
	head header
	size int64 // of the file
	in   *bufio.Reader
	off  int64  // where the next batch begins
	buf  []byte // the last batch

	synced uint64 // all batches up to here had been synced when the last one was written
}

// openReader opens a file and reads its header.
func openReader(dir FS, kind uint32, number uint64) (_ *reader, err error) {
	name := fileName(kind, number)
	f, err := dir.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	r := &reader{file: f, path: dir.Path(name), off: fileHeader}
	if r.size, err = f.Size(); err != nil {
		return nil, err
	}
	b := make([]byte, fileHeader)
	if _, err := f.ReadAt(b, 0); errors.Is(err, io.EOF) {
		clear(b) // zeros are an invalid header
	} else if err != nil {
		return nil, err
	}
	if r.head, err = decodeHeader(b); err == nil && (r.head.kind != kind || r.head.number != number) {
		err = fmt.Errorf("%w: it is a copy of another file; restore a backup", ErrDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.path, err)
	}
	batches := max(r.size-fileHeader, 0)
	r.in = bufio.NewReaderSize(io.NewSectionReader(f, fileHeader, batches), int(min(max(batches, batchHeader), 1<<17)))
	return r, nil
}

// each calls f for every change in the bytes of a batch of r.
func (r *reader) each(b []byte, f func(key, value []byte) error) error {
	if r.head.format == oldFormat {
		return eachOldChange(b, f)
	}
	return eachChange(b, f)
}

func (r *reader) close() { r.file.Close() } // it has only been read

// lengthOf returns how many bytes of changes the batch has that begins with b, at off. It
// returns false if no batch of this file can begin with b.
func (r *reader) lengthOf(b []byte, off int64) (int64, bool) {
	length := int64(binary.BigEndian.Uint32(b[8:]))
	return length, binary.BigEndian.Uint64(b) == r.head.mark && length <= min(maxRead, r.size-off-batchHeader)
}

// next returns the changes of the next batch, which are valid until the following call. If the batch
// with this number is not there, it returns false, and must not be called again.
func (r *reader) next(number uint64) (changes []byte, ok bool, err error) {
	head, err := r.in.Peek(batchHeader)
	if errors.Is(err, io.EOF) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	length, ok := r.lengthOf(head, r.off)
	if !ok || binary.BigEndian.Uint64(head[12:]) != number {
		return nil, false, nil
	}
	n := int(batchHeader + length)
	if n > cap(r.buf) {
		r.buf = make([]byte, n, n+n/4)
	}
	r.buf = r.buf[:n]
	if _, err := io.ReadFull(r.in, r.buf); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, false, nil // the file has shrunk
	} else if err != nil {
		return nil, false, err
	}
	if !whole(r.buf) {
		return nil, false, nil
	}
	r.off += int64(n)
	r.synced = binary.BigEndian.Uint64(r.buf[20:])
	return r.buf[batchHeader:], true, nil
}

// must is next for a snapshot, of which every batch was synced: if one is missing, the store is damaged.
func (r *reader) must(number uint64) ([]byte, error) {
	b, ok, err := r.next(number)
	if err == nil && !ok {
		err = fmt.Errorf("%w: %s, byte %d: batch %d is damaged; restore a backup", ErrDamaged, r.path, r.off, number)
	}
	return b, err
}
