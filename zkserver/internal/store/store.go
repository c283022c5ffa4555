package store

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Format is the version of the layout below. A store of an older version is brought up
// to it when it is loaded, one of a newer version is refused.
//
//   - 1 is the first.
//   - 2 counts commits, and has a witness of the count beside the database.
const Format = 2

// Errors that Open and Load wrap.
var (
	ErrInUse  = errors.New("another process has it open")
	ErrFormat = errors.New("not a store that this version can read")

	// ErrDamaged means that the store does not have what was committed to it.
	ErrDamaged = errors.New("the store is damaged")
)

// A Store is where a server's state survives.
type Store interface {
	// Load reads everything back. A fresh store is given init first.
	Load(init Meta, visit Visitor) (Meta, error)
	// Commit makes b durable, all of it or none.
	Commit(b *Batch) error
	// Close lets go of the store. It is called once, after the last Commit.
	Close() error
}

// Meta is what a server knows about itself.
type Meta struct {
	Secret  []byte // key of the session passwords
	Ceiling int64  // no zxid above it has been given out
}

// A Visitor receives what Load finds, in no particular order. Records are valid
// during the call only.
type Visitor struct {
	Node    func(path string, record []byte) error
	Session func(id int64, record []byte) error
}

// The first byte of a key says what it is the key of. A path follows as it is, so
// every path that the protocol allows can be kept.
const (
	keyNode    = 'n' // + path
	keySession = 's' // + 8 bytes, big-endian
	keyMeta    = 'm' // + name
)

var (
	keyFormat  = []byte{keyMeta, 'f'}
	keySecret  = []byte{keyMeta, 's'}
	keyCeiling = []byte{keyMeta, 'z'}
	keyCommits = []byte{keyMeta, 'n'} // on disk only
)

// A Batch collects changes. The last one to a key counts.
type Batch struct {
	buf     []byte // keys and values one behind the other
	changes []change
}

type change struct {
	key, value int // lengths; value is -1 for a deletion
}

// Empty reports whether b changes nothing.
func (b *Batch) Empty() bool { return len(b.changes) == 0 }

// PutNode keeps the record of a node.
func (b *Batch) PutNode(path string, record []byte) {
	b.buf = append(append(b.buf, keyNode), path...)
	b.put(1+len(path), record)
}

// DeleteNode forgets a node.
func (b *Batch) DeleteNode(path string) {
	b.buf = append(append(b.buf, keyNode), path...)
	b.changes = append(b.changes, change{1 + len(path), -1})
}

// PutSession keeps the record of a session.
func (b *Batch) PutSession(id int64, record []byte) {
	b.buf = binary.BigEndian.AppendUint64(append(b.buf, keySession), uint64(id))
	b.put(9, record)
}

// DeleteSession forgets a session.
func (b *Batch) DeleteSession(id int64) {
	b.buf = binary.BigEndian.AppendUint64(append(b.buf, keySession), uint64(id))
	b.changes = append(b.changes, change{9, -1})
}

// PutCeiling promises that no zxid above it has been given out.
func (b *Batch) PutCeiling(zxid int64) {
	b.buf = append(b.buf, keyCeiling...)
	b.put(len(keyCeiling), binary.BigEndian.AppendUint64(nil, uint64(zxid)))
}

func (b *Batch) put(key int, value []byte) {
	b.buf = append(b.buf, value...)
	b.changes = append(b.changes, change{key, len(value)})
}

// each calls f for every change; value is nil for a deletion.
func (b *Batch) each(f func(key, value []byte) error) error {
	rest := b.buf
	for _, c := range b.changes {
		key, value := rest[:c.key:c.key], []byte(nil)
		rest = rest[c.key:]
		if c.value >= 0 {
			value, rest = rest[:c.value:c.value], rest[c.value:]
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// fresh is the first batch of a store.
func fresh(init Meta) *Batch {
	b := new(Batch)
	b.putFormat()
	b.buf = append(b.buf, keySecret...)
	b.put(len(keySecret), init.Secret)
	b.PutCeiling(init.Ceiling)
	return b
}

func (b *Batch) putFormat() {
	b.buf = append(b.buf, keyFormat...)
	b.put(len(keyFormat), []byte{Format})
}

func checkFormat(value []byte) (int, error) {
	switch {
	case len(value) != 1 || value[0] == 0:
		return 0, fmt.Errorf("%w: its format is %x; is this the right directory?", ErrFormat, value)
	case value[0] > Format:
		return 0, fmt.Errorf("%w: its format is %d, this program knows %d; use the version of holdfast that wrote it", ErrFormat, value[0], Format)
	}
	return int(value[0]), nil
}

func decodeCommits(value []byte) (uint64, error) {
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: its number of commits is %x", ErrDamaged, value)
	}
	return binary.BigEndian.Uint64(value), nil
}

// dispatch hands one stored pair to where it belongs.
func dispatch(key, value []byte, meta *Meta, v Visitor) error {
	switch {
	case len(key) > 1 && key[0] == keyNode:
		return v.Node(string(key[1:]), value)
	case len(key) == 9 && key[0] == keySession:
		return v.Session(int64(binary.BigEndian.Uint64(key[1:])), value)
	case string(key) == string(keyFormat), string(key) == string(keyCommits):
		return nil // looked at first
	case string(key) == string(keySecret):
		meta.Secret = append([]byte(nil), value...)
		return nil
	case string(key) == string(keyCeiling) && len(value) == 8:
		meta.Ceiling = int64(binary.BigEndian.Uint64(value))
		return nil
	}
	return fmt.Errorf("%w: key %q is unknown", ErrFormat, key)
}
