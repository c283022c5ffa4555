package store

import (
	"encoding/binary"
	"fmt"
)

// The first byte of a key is its kind. A path follows as it is, so the store can keep every path
// that the protocol allows. A node has up to three records, so that a change of one of them does not
// write the others.
const (
	keyNode     = 'n' // + path: what changes with neither of the following
	keyChildren = 'c' // + path: what changes with the children
	keyACL      = 'a' // + path
	keySession  = 's' // + 8 bytes, big-endian
	keyMeta     = 'm' // + name
)

var (
	keySecret  = []byte{keyMeta, 's'}
	keyCeiling = []byte{keyMeta, 'z'}
	keyAhead   = []byte{keyMeta, 'a'}
)

// A Batch collects changes. If several of them change one key, the last one counts.
type Batch struct {
	// SyncLater lets Commit return when the batch is written and not yet synced. The batch
	// then survives the process. It survives a power failure as soon as a later batch without
	// SyncLater is committed. Where the system has no boot id, every batch is synced; see
	// [Meta.Restarted].
	SyncLater bool

	buf  []byte // space for the header of the batch, then the changes as they are on disk
	last string // the path of the last change, if that was of a node
}

// Empty reports whether b changes nothing.
func (b *Batch) Empty() bool { return len(b.buf) == 0 }

// Len returns the bytes that b takes on disk.
func (b *Batch) Len() int { return len(b.buf) }

// SetNode stores a record of a node; nil deletes it. part is the first byte of its key.
func (b *Batch) SetNode(path string, part byte, record []byte) {
	shared := 0
	for most := min(len(path), len(b.last)); shared < most && path[shared] == b.last[shared]; shared++ {
	}
	b.begin(part, shared, len(path)-shared, record)
	b.buf = append(append(b.buf, path[shared:]...), record...)
	b.last = path
}

// PutSession stores the record of a session.
func (b *Batch) PutSession(id int64, record []byte) {
	key := [9]byte{keySession}
	binary.BigEndian.PutUint64(key[1:], uint64(id))
	b.put(key[:], record)
}

// DeleteSession deletes the record of a session.
func (b *Batch) DeleteSession(id int64) { b.PutSession(id, nil) }

// PutCeiling stores the ceiling: no zxid above it has been given out.
func (b *Batch) PutCeiling(zxid int64) { b.putNumber(keyCeiling, zxid) }

// PutAhead stores Meta.Ahead.
func (b *Batch) PutAhead(zxids int64) { b.putNumber(keyAhead, zxids) }

func (b *Batch) putNumber(key []byte, n int64) {
	var value [8]byte
	binary.BigEndian.PutUint64(value[:], uint64(n))
	b.put(key, value[:])
}

// put stores the value of a key; nil deletes it.
func (b *Batch) put(key, value []byte) {
	b.begin(key[0], 0, len(key)-1, value)
	b.buf = append(append(b.buf, key[1:]...), value...)
	b.last = ""
}

// begin appends what precedes a key and its value: the kind of the key; how many bytes the rest of the key
// has in common with that of the change before, and how many of its own; and the length of the value plus
// one, or 0 for a deletion.
func (b *Batch) begin(kind byte, shared, own int, value []byte) {
	if len(b.buf) == 0 {
		b.buf = make([]byte, batchHeader, 512)
	}
	length := 0
	if value != nil {
		length = len(value) + 1
	}
	b.buf = append(b.buf, kind)
	for _, n := range [...]int{shared, own, length} {
		b.buf = binary.AppendUvarint(b.buf, uint64(n))
	}
}

// each calls f for every change; value is nil for a deletion.
func (b *Batch) each(f func(key, value []byte) error) error {
	if b.Empty() {
		return nil
	}
	return eachChange(b.buf[batchHeader:], f)
}

// eachChange calls f for every change in the bytes of a batch. The key is valid during the call, the
// value is a part of b.
func eachChange(b []byte, f func(key, value []byte) error) error {
	key := []byte{0}
	for len(b) > 0 {
		kind := b[0]
		b = b[1:]
		var lengths [3]uint64
		for i := range lengths {
			n, size := binary.Uvarint(b)
			if size <= 0 {
				return fmt.Errorf("%w: the lengths of a change are missing", ErrDamaged)
			}
			lengths[i], b = n, b[size:]
		}
		shared, own, length := lengths[0], lengths[1], lengths[2]
		if shared > uint64(len(key)-1) || own > uint64(len(b)) || length > 0 && length-1 > uint64(len(b))-own {
			return fmt.Errorf("%w: a change is longer than its batch", ErrDamaged)
		}
		key = append(key[:1+shared], b[:own]...)
		key[0] = kind
		value := []byte(nil)
		if b = b[own:]; length > 0 {
			value, b = b[:length-1:length-1], b[length-1:]
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
	case len(key) > 1 && (key[0] == keyNode || key[0] == keyChildren || key[0] == keyACL):
		return v.Node(string(key[1:]), key[0], value)
	case len(key) == 9 && key[0] == keySession:
		return v.Session(int64(binary.BigEndian.Uint64(key[1:])), value)
	case string(key) == string(keySecret):
		meta.Secret = append([]byte(nil), value...)
		return nil
	case string(key) == string(keyCeiling) && len(value) == 8:
		meta.Ceiling = int64(binary.BigEndian.Uint64(value))
		return nil
	case string(key) == string(keyAhead) && len(value) == 8:
		meta.Ahead = int64(binary.BigEndian.Uint64(value))
		return nil
	}
	return fmt.Errorf("%w: key %q is unknown", ErrFormat, key)
}
