package zkproto

import "encoding/binary"

// A Stat is a node's metadata (org.apache.zookeeper.data.Stat).
type Stat struct {
	Czxid          int64 // zxid of the node's creation: a fencing token where the node is a lock
	Mzxid          int64 // zxid of the last change of its data
	Ctime          int64 // creation, milliseconds since 1970
	Mtime          int64 // last change of its data, milliseconds since 1970
	Version        int32 // changes of its data
	Cversion       int32 // changes of its list of children
	Aversion       int32 // changes of its ACL
	EphemeralOwner int64 // session id; 0 if the node is not ephemeral
	DataLength     int32
	NumChildren    int32
	Pzxid          int64 // zxid of the last change of its list of children
}

// Append appends the 68 bytes of s.
func (s *Stat) Append(b []byte) []byte {
	b = AppendInt64(b, s.Czxid)
	b = AppendInt64(b, s.Mzxid)
	b = AppendInt64(b, s.Ctime)
	b = AppendInt64(b, s.Mtime)
	b = AppendInt32(b, s.Version)
	b = AppendInt32(b, s.Cversion)
	b = AppendInt32(b, s.Aversion)
	b = AppendInt64(b, s.EphemeralOwner)
	b = AppendInt32(b, s.DataLength)
	b = AppendInt32(b, s.NumChildren)
	return AppendInt64(b, s.Pzxid)
}

// Decode reads s from r.
func (s *Stat) Decode(r *Reader) {
	*s = Stat{}
	if r.err == nil && r.Remaining() < statSize {
		r.Fail("a stat takes %d bytes, %d are there", statSize, r.Remaining())
	}
	b := r.take(statSize) // all at once, because most replies have one
	if b == nil {
		return
	}
	be := binary.BigEndian
	*s = Stat{
		Czxid: int64(be.Uint64(b)), Mzxid: int64(be.Uint64(b[8:])), Ctime: int64(be.Uint64(b[16:])), Mtime: int64(be.Uint64(b[24:])),
		Version: int32(be.Uint32(b[32:])), Cversion: int32(be.Uint32(b[36:])), Aversion: int32(be.Uint32(b[40:])),
		EphemeralOwner: int64(be.Uint64(b[44:])),
		DataLength:     int32(be.Uint32(b[52:])), NumChildren: int32(be.Uint32(b[56:])), Pzxid: int64(be.Uint64(b[60:])),
	}
}

const statSize = 68

// Permissions of an ACL entry.
const (
	PermRead   int32 = 1
	PermWrite  int32 = 2
	PermCreate int32 = 4
	PermDelete int32 = 8
	PermAdmin  int32 = 16
	PermAll    int32 = 31
)

// An ACL is one entry of a node's access control list.
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

// AppendACLs appends a vector of entries.
func AppendACLs(b []byte, acls []ACL) []byte {
	b = AppendInt32(b, int32(len(acls)))
	for _, a := range acls {
		b = AppendInt32(b, a.Perms)
		b = AppendString(b, a.Scheme)
		b = AppendString(b, a.ID)
	}
	return b
}

// DecodeACLs reads a vector of entries.
func DecodeACLs(r *Reader) []ACL {
	n := r.Count(12)
	if n == 0 {
		return nil
	}
	acls := make([]ACL, 0, n)
	for range n {
		acls = append(acls, ACL{Perms: r.Int32(), Scheme: r.String(), ID: r.String()})
	}
	return acls
}
