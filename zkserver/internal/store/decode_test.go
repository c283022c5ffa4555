package store

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// FuzzDispatch reads arbitrary bytes as a pair of key and value. A known pair is the same when
// it is written again. Any other pair is refused with ErrFormat.
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

// FuzzChanges reads arbitrary bytes as the changes of a batch. They are the same when they are written
// again, or they are damaged. Keys and values are parts of the input.
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

// FuzzParseName parses arbitrary file names. For a name of the store, fileName returns it again.
func FuzzParseName(f *testing.F) {
	for _, name := range []string{"00000001.journal", "123456789.snapshot", "1.journal", "00000000.journal",
		"00000001.journal.tmp", "-0000001.snapshot", witnessFile, guard, "MANIFEST-000001", "99999999999999999999.journal"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if kind, number := parseName(name); number > 0 && fileName(kind, number) != name {
			t.Errorf("%q is file %d of kind %c", name, number, kind)
		}
	})
}

// FuzzParseBoot parses arbitrary text as a boot id. The result is zeros, or the hexadecimal digits of
// the text.
func FuzzParseBoot(f *testing.F) {
	f.Add("6fd3c1b6-1f7b-4c39-8e53-1d9c2a5b7f10\n")
	f.Add("6FD3C1B6-1F7B-4C39-8E53-1D9C2A5B7F10")
	f.Add("")
	f.Add("not a boot id at all, but long enough")
	f.Fuzz(func(t *testing.T, s string) {
		if id := parseBoot(s); id != (BootID{}) && !strings.Contains(strings.ToLower(strings.ReplaceAll(s, "-", "")), hex.EncodeToString(id[:])) {
			t.Errorf("%q is %x", s, id)
		}
	})
}
