package store

import (
	"bytes"
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
	f.Add([]byte{}, []byte{})
	f.Add([]byte{keySession}, []byte{1})
	f.Fuzz(func(t *testing.T, key, value []byte) {
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

// FuzzChanges reads anything as the changes of a batch. They come back when they are written
// again, or it is damage; keys and values are parts of the input.
func FuzzChanges(f *testing.F) {
	var b Batch
	b.PutNode("/a", []byte("record"))
	b.DeleteNode("/a/b")
	b.PutNode("/empty", nil)
	b.PutSession(7, []byte("x"))
	f.Add(b.buf[batchHeader:])
	f.Add([]byte{})
	f.Add([]byte{3, 0, 'n'})
	f.Add(bytes.Repeat([]byte{0xff}, 30))
	f.Fuzz(func(t *testing.T, in []byte) {
		var again Batch
		err := eachChange(in, func(key, value []byte) error {
			if value == nil {
				again.begin(len(key), -1)
				again.buf = append(again.buf, key...)
			} else {
				again.put(key, value)
			}
			return nil
		})
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%v; want ErrDamaged", err)
			}
			return
		}
		var a, b [][]byte
		for list, bytesOf := range map[*[][]byte][]byte{&a: in, &b: append(make([]byte, 0), again.changes()...)} {
			if err := eachChange(bytesOf, func(key, value []byte) error { *list = append(*list, key, value); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if len(a) != len(b) {
			t.Fatalf("%d keys and values came back as %d", len(a), len(b))
		}
		for i := range a {
			if !bytes.Equal(a[i], b[i]) || (a[i] == nil) != (b[i] == nil) {
				t.Errorf("%q came back as %q", a[i], b[i])
			}
		}
	})
}

func (b *Batch) changes() []byte {
	if b.Empty() {
		return nil
	}
	return b.buf[batchHeader:]
}
