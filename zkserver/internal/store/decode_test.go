package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// FuzzDispatch reads anything as a pair of key and value. What is known comes back when
// it is written again; the rest is refused as no store of ours.
func FuzzDispatch(f *testing.F) {
	var b Batch
	b.PutNode("/a", []byte("record"))
	b.PutSession(-7, []byte("session"))
	b.PutCeiling(1 << 40)
	_ = b.each(func(key, value []byte) error { f.Add(bytes.Clone(key), bytes.Clone(value)); return nil })
	f.Add(keySecret, []byte("secret"))
	f.Add(keyFormat, []byte("1"))
	f.Add([]byte{}, []byte{})
	f.Add([]byte{keySession}, []byte{1})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if n, err := decodeCommits(value); err == nil && !bytes.Equal(binary.BigEndian.AppendUint64(nil, n), value) || err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%x is %d commits, %v", value, n, err)
		}
		var again Batch
		meta := Meta{Ceiling: -1}
		err := dispatch(key, value, &meta, Visitor{
			Node:    func(path string, record []byte) error { again.PutNode(path, record); return nil },
			Session: func(id int64, record []byte) error { again.PutSession(id, record); return nil },
		})
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%q: %v; want ErrFormat", key, err)
			}
			return
		}
		if meta.Ceiling != -1 {
			again.PutCeiling(meta.Ceiling)
		}
		_ = again.each(func(k, v []byte) error {
			if !bytes.Equal(k, key) || !bytes.Equal(v, value) {
				t.Errorf("%q: %q came back as %q: %q", key, value, k, v)
			}
			return nil
		})
	})
}
