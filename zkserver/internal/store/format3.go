package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Format 3 differs from the present format in the changes of a batch. A key has no part in common with
// the key before, and a node has one record, with the key of the present keyNode. A record has, in this
// order: the data, the ACL, six numbers of 8 bytes (czxid, mzxid, pzxid, ctime, mtime and owner), three
// of 4 bytes (version, created children and version of the ACL), and one byte and maybe 8 more.
//
// The reader splits these records. So the rest of the package sees the present format only, and a store
// may have files of both formats. A start writes the present format into the next journal, and the next
// snapshot replaces the older files.
const oldFormat = 3

// eachOldChange is eachChange for a batch of format 3.
func eachOldChange(b []byte, f func(key, value []byte) error) error {
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
		if k < 2 || key[0] != keyNode {
			if err := f(key, value); err != nil {
				return err
			}
			continue
		}
		var records [3][]byte
		if value != nil {
			var ok bool
			if records, ok = splitRecord(string(key[1:]), value); !ok {
				return fmt.Errorf("%w: the record of node %s is cut off", ErrDamaged, key[1:])
			}
		}
		for i, kind := range [...]byte{keyNode, keyChildren, keyACL} {
			if err := f(append([]byte{kind}, key[1:]...), records[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// usualACL is the record of an ACL that need not be stored: world:anyone may do everything, and no client
// has set another ACL. Without a record, the ACL of the node configPath is another one.
const usualACL = "\x00\x00\x00\x01\x00\x00\x00\x1f\x00\x00\x00\x05world\x00\x00\x00\x06anyone\x00\x00\x00\x00"

const configPath = "/zookeeper/config"

// splitRecord splits a record of format 3 into the records of the node, its children and its ACL. A record
// that need not be stored is nil.
func splitRecord(path string, record []byte) (parts [3][]byte, ok bool) {
	rest := record
	skip := func() bool { // a length, which may be -1, and so many bytes
		if len(rest) < 4 {
			return false
		}
		n := max(int64(int32(binary.BigEndian.Uint32(rest))), 0)
		if rest = rest[4:]; n > int64(len(rest)) {
			return false
		}
		rest = rest[n:]
		return true
	}
	if !skip() {
		return parts, false
	}
	data := record[:len(record)-len(rest)]
	if len(rest) < 4 {
		return parts, false
	}
	entries := max(int32(binary.BigEndian.Uint32(rest)), 0)
	for rest = rest[4:]; entries > 0; entries-- {
		if len(rest) < 4 {
			return parts, false
		}
		rest = rest[4:]
		for range 2 { // scheme and id
			if !skip() {
				return parts, false
			}
		}
	}
	acl := record[len(data) : len(record)-len(rest)]
	if len(rest) != 61 && len(rest) != 69 {
		return parts, false
	}
	czxid, pzxid, created := rest[:8], rest[16:24], rest[52:56]
	parts[0] = bytes.Join([][]byte{data, rest[:16], rest[24:52], rest[60:]}, nil)
	if !bytes.Equal(pzxid, czxid) || binary.BigEndian.Uint32(created) != 0 {
		parts[1] = bytes.Join([][]byte{pzxid, created}, nil)
	}
	if acl := bytes.Join([][]byte{acl, rest[56:60]}, nil); string(acl) != usualACL || path == configPath {
		parts[2] = acl
	}
	return parts, true
}
