package store

import (
	"encoding/binary"
	"fmt"
)

// The first byte of a key is its kind. A path follows as it is, so the store can keep every path
// that the protocol allows.
const (
	keyNode    = 'n' // + path
	keySession = 's' // + 8 bytes, big-endian
	keyMeta    = 'm' // + name
)

var (
	keySecret  = []byte{keyMeta, 's'}
	keyCeiling = []byte{keyMeta, 'z'}
)

// A Batch collects changes. If several of them change one key, the last one counts.
type Batch struct {
	// SyncLater lets Commit return when the batch is written and not yet synced. The batch
	// then survives the process. It survives a power failure as soon as a later batch without
	// SyncLater is committed. Where the system has no boot id, every batch is synced; see
	// [Meta.Restarted].
	SyncLater bool

	buf []byte // space for the header of the batch, then the changes as they are on disk
}

// Empty reports whether b changes nothing.
func (b *Batch) Empty() bool { return len(b.buf) == 0 }

// PutNode stores the record of a node.
func (b *Batch) PutNode(path string, record []byte) {
	b.begin(1+len(path), len(record))
	b.buf = append(append(append(b.buf, keyNode), path...), record...)
}

// DeleteNode deletes the record of a node.
func (b *Batch) DeleteNode(path string) {
	b.begin(1+len(path), -1)
	b.buf = append(append(b.buf, keyNode), path...)
}

// PutSession stores the record of a session.
func (b *Batch) PutSession(id int64, record []byte) {
	b.begin(9, len(record))
	b.buf = append(binary.BigEndian.AppendUint64(append(b.buf, keySession), uint64(id)), record...)
}

// DeleteSession deletes the record of a session.
func (b *Batch) DeleteSession(id int64) {
	b.begin(9, -1)
	b.buf = binary.BigEndian.AppendUint64(append(b.buf, keySession), uint64(id))
}

// PutCeiling stores the ceiling: no zxid above it has been given out.
func (b *Batch) PutCeiling(zxid int64) {
	b.begin(len(keyCeiling), 8)
	b.buf = binary.BigEndian.AppendUint64(append(b.buf, keyCeiling...), uint64(zxid))
}

func (b *Batch) put(key, value []byte) {
	b.begin(len(key), len(value))
	b.buf = append(append(b.buf, key...), value...)
}

// begin appends the lengths of a key and of a value; -1 is a deletion.
func (b *Batch) begin(key, value int) {
	if len(b.buf) == 0 {
		b.buf = append(b.buf, make([]byte, batchHeader)...)
	}
	b.buf = binary.AppendUvarint(b.buf, uint64(key))
	b.buf = binary.AppendUvarint(b.buf, uint64(value+1))
}

// each calls f for every change; value is nil for a deletion.
func (b *Batch) each(f func(key, value []byte) error) error {
	if b.Empty() {
		return nil
	}
	return eachChange(b.buf[batchHeader:], f)
}

// eachChange calls f for every change in the bytes of a batch. Key and value are parts of b.
func eachChange(b []byte, f func(key, value []byte) error) error {
	for len(b) > 0 {
		k, n := binary.Uvarint(b)
		v, m := binary.Uvarint(b[max(n, 0):])
		if n <= 0 || m <= 0 {
			return fmt.Errorf("%w: the lengths of a change are missing", ErrDamaged)
		}
		b = b[n+m:]
		if k > uint64(len(b)) || v > 0 && v-1 > uint64(len(b))-k {
			return fmt.Errorf("%w: a change is longer than its batch", ErrDamaged)
		}
		key, value := b[:k:k], []byte(nil)
		if b = b[k:]; v > 0 {
			value, b = b[:v-1:v-1], b[v-1:]
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// fresh returns the first batch of a store.
func fresh(init Meta) *Batch {
	b := new(Batch)
	b.put(keySecret, init.Secret)
	b.PutCeiling(init.Ceiling)
	return b
}

// dispatch passes one stored pair to meta or to the visitor.
func dispatch(key, value []byte, meta *Meta, v Visitor) error {
	switch {
	case len(key) > 1 && key[0] == keyNode:
		return v.Node(string(key[1:]), value)
	case len(key) == 9 && key[0] == keySession:
		return v.Session(int64(binary.BigEndian.Uint64(key[1:])), value)
	case string(key) == string(keySecret):
		meta.Secret = append([]byte(nil), value...)
		return nil
	case string(key) == string(keyCeiling) && len(value) == 8:
		meta.Ceiling = int64(binary.BigEndian.Uint64(value))
		return nil
	}
	return fmt.Errorf("%w: key %q is unknown", ErrFormat, key)
}
