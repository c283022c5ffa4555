package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
)

// Settle waits for a compaction in progress.
func (j *Journal) Settle() error {
	if j.compaction == nil {
		return nil
	}
	err := j.take(<-j.compaction)
	j.due = j.worthASnapshot()
	if err != nil && j.err == nil {
		j.err = err
	}
	return err
}

// Compacting reports whether no Commit has taken the result of a compaction yet.
func (j *Journal) Compacting() bool { return j.compaction != nil }

// Synced returns the numbers of the last durable batch and of the last batch.
func (j *Journal) Synced() (synced, last uint64) { return j.synced, j.last }

// Each calls f for every change of b.
func (b *Batch) Each(f func(key, value []byte) error) error { return b.each(f) }

const (
	JournalRoom = journalRoom
	MaxSegments = maxSegments
	WitnessFile = witnessFile
	Guard       = guard
	FileHeader  = fileHeader
	BatchHeader = batchHeader
)

// TooLarge returns a batch of one byte more than the limit.
func TooLarge() *Batch { return &Batch{buf: make([]byte, MaxBatch+1)} }

// Stopping returns a channel that is closed when Close has begun.
func (j *Journal) Stopping() chan struct{} { return j.stop }

// Unknown returns a batch with a key that no version knows.
func Unknown() *Batch {
	b := new(Batch)
	b.put([]byte("?"), []byte{})
	return b
}

// WithFormat returns a file with another format in its header.
func WithFormat(file []byte, format uint32) []byte {
	b := slices.Clone(file)
	binary.BigEndian.PutUint32(b[8:], format)
	binary.BigEndian.PutUint32(b[fileHeader-4:], crc32.Checksum(b[:fileHeader-4], castagnoli()))
	return b
}

// Mend corrects the checksums of a file: of its header and of all batches in a row.
func Mend(file []byte) []byte {
	b := slices.Clone(file)
	if len(b) < fileHeader {
		return b
	}
	binary.BigEndian.PutUint32(b[fileHeader-4:], crc32.Checksum(b[:fileHeader-4], castagnoli()))
	for rest := b[fileHeader:]; len(rest) >= batchHeader; {
		length := uint64(binary.BigEndian.Uint32(rest[8:]))
		if length > uint64(len(rest)-batchHeader) {
			break
		}
		binary.BigEndian.PutUint32(rest[28:], sumOf(rest[:batchHeader+length]))
		rest = rest[batchHeader+length:]
	}
	return b
}

// appendOld appends a change as in format 3; a nil value is a deletion.
func appendOld(b, key, value []byte) []byte {
	length := 0
	if value != nil {
		length = len(value) + 1
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(len(key))), uint64(length))
	return append(append(b, key...), value...)
}

// Older returns the files of a store as format 3 has them. The data of each node is its present record.
func Older(files map[string][]byte) map[string][]byte {
	older := make(map[string][]byte)
	for name, file := range files {
		kind, number := parseName(name)
		if kind == 0 {
			older[name] = file
			continue
		}
		h, err := decodeHeader(file)
		if err != nil {
			panic(err)
		}
		h.format = oldFormat
		b := h.encode()
		for rest := file[fileHeader:]; len(rest) >= batchHeader && binary.BigEndian.Uint64(rest) == h.mark; {
			end := batchHeader + binary.BigEndian.Uint32(rest[8:])
			batch := make([]byte, batchHeader)
			err := eachChange(rest[batchHeader:end], func(key, value []byte) error {
				if key[0] == keyNode && value != nil {
					value = oldRecord(string(value), oldUsualACL)
				}
				batch = appendOld(batch, key, value)
				return nil
			})
			if err != nil {
				panic(fmt.Errorf("file %d: %w", number, err))
			}
			finish(batch, h.mark, binary.BigEndian.Uint64(rest[12:]), binary.BigEndian.Uint64(rest[20:]))
			b, rest = append(b, batch...), rest[end:]
		}
		older[name] = b
	}
	return older
}

// OlderRecord returns the record of a node whose record in format 4 was this one when Older was called.
func OlderRecord(record string) string {
	parts, _ := splitRecord("/", oldRecord(record, oldUsualACL))
	return string(parts[0])
}

// MachineBoot returns the boot id of this machine.
func MachineBoot() BootID { return bootID() }

// Copy makes one attempt of BackUp.
func Copy(from, to FS) error { return backUp(from, to) }

// CheckFS reads the store in fs as Check does.
func CheckFS(fs FS, visit Visitor) (Summary, error) { return check(fs, visit) }

// OpenDir opens a directory of the machine.
func OpenDir(path string) (FS, func(), error) {
	d, err := openDir(path)
	return d, func() { d.Close() }, err
}
