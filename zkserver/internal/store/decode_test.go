package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"
)

// FuzzDispatch reads arbitrary bytes as a pair of key and value. A known pair is the same when
// it is written again. Any other pair is refused with ErrFormat.
func FuzzDispatch(f *testing.F) {
	var b Batch
	b.SetNode("/a", 'n', []byte("record"))
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
			Node:    func(path string, part byte, record []byte) error { again.SetNode(path, part, record); return nil },
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
// again, or they are damaged. Values are parts of the input.
func FuzzChanges(f *testing.F) {
	var b Batch
	b.SetNode("/a", 'n', []byte("record"))
	b.SetNode("/a/b", 'n', nil)
	b.SetNode("/empty", 'n', []byte{})
	b.PutSession(7, []byte("x"))
	f.Add(b.buf[batchHeader:])
	f.Add([]byte{})
	f.Add([]byte{3, 0, 'n'})
	f.Add(bytes.Repeat([]byte{0xff}, 30))
	f.Fuzz(func(t *testing.T, in []byte) {
		var again Batch
		err := eachChange(in, func(key, value []byte) error {
			if len(key) > 1 && key[0] == keyNode {
				again.SetNode(string(key[1:]), key[0], value)
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
			if err := eachChange(bytesOf, func(key, value []byte) error { *list = append(*list, bytes.Clone(key), value); return nil }); err != nil {
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

// oldRecord returns a record of format 3 of a node without children, with this data.
func oldRecord(data, acl string, numbers ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, data...), acl...)
	return append(b, append(numbers, make([]byte, 61-len(numbers))...)...)
}

var oldUsualACL = usualACL[:len(usualACL)-4] // without its version

// FuzzSplitRecord splits arbitrary bytes as a record of format 3. The parts together are the record.
func FuzzSplitRecord(f *testing.F) {
	f.Add("/a", oldRecord("data", oldUsualACL))
	f.Add("/a", oldRecord("", oldUsualACL, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17))
	f.Add("/a", append(oldRecord("x", "\x00\x00\x00\x00"), 1, 2, 3, 4, 5, 6, 7, 8)) // a TTL
	f.Add(configPath, append([]byte{0xff, 0xff, 0xff, 0xff}, oldRecord("", oldUsualACL)[4:]...))
	f.Add("/a", []byte{0, 0, 0, 1, 'x', 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, path string, record []byte) {
		parts, ok := splitRecord(path, record)
		if !ok {
			return
		}
		n, c, a := parts[0], parts[1], parts[2]
		data := 4
		if length := int32(binary.BigEndian.Uint32(n)); length > 0 {
			data += int(length)
		}
		numbers := n[data:] // czxid, mzxid, ctime, mtime, owner, version, and the rest
		if c == nil {
			c = append(bytes.Clone(numbers[:8]), 0, 0, 0, 0)
		}
		if a == nil {
			a = []byte(usualACL)
		}
		acl, version := a[:len(a)-4], a[len(a)-4:]
		whole := bytes.Join([][]byte{n[:data], acl, numbers[:16], c[:8], numbers[16:44], c[8:], version, numbers[44:]}, nil)
		if !bytes.Equal(whole, record) {
			t.Errorf("%x is split into %x", record, parts)
		}
		if a == nil && path == configPath {
			t.Error("the ACL is left out")
		}
	})
}

// FuzzOldChanges reads arbitrary bytes as the changes of a batch of format 3. They are damaged, or the present
// format has the same changes.
func FuzzOldChanges(f *testing.F) {
	f.Add(appendOld(appendOld(nil, []byte("n/a"), oldRecord("x", oldUsualACL)), []byte("n/b"), nil))
	f.Add(appendOld(nil, []byte("s12345678"), []byte{1, 2, 3, 4}))
	f.Add(appendOld(nil, []byte("n/a"), []byte("cut off")))
	f.Add(bytes.Repeat([]byte{0xff}, 30))
	f.Fuzz(func(t *testing.T, in []byte) {
		var again Batch
		var all [][]byte
		err := eachOldChange(in, func(key, value []byte) error {
			if len(key) == 0 {
				return nil // nothing writes it, and dispatch refuses it
			}
			all = append(all, bytes.Clone(key), bytes.Clone(value))
			again.put(key, value)
			return nil
		})
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("%v; want ErrDamaged", err)
			}
			return
		}
		i := 0
		_ = again.each(func(key, value []byte) error {
			if !bytes.Equal(key, all[i]) || !bytes.Equal(value, all[i+1]) || (value == nil) != (all[i+1] == nil) {
				t.Errorf("%q: %q is read; want %q: %q", key, value, all[i], all[i+1])
			}
			i += 2
			return nil
		})
	})
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

// FuzzParseMark parses arbitrary bytes as the mark of a copy. A mark is written as it was read.
func FuzzParseMark(f *testing.F) {
	m := copyMark{last: 7, at: time.Unix(5, 6)}
	f.Add(m.encode())
	f.Add(m.encode()[:20])
	f.Add([]byte("accepted\n"))
	f.Add([]byte("not accepted"))
	f.Add(make([]byte, markSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := parseMark(b)
		switch {
		case m == nil:
		case m.accepted != (strings.TrimSpace(string(b)) == markAccepted), !m.accepted && !bytes.Equal(m.encode(), b):
			t.Errorf("%q is %+v", b, m)
		}
	})
}
