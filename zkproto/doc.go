// Package zkproto has the messages of the ZooKeeper client protocol, in both directions, and their
// numbers: operation codes, error codes, event types. It does no I/O and starts no goroutine. The
// client (package zk) and the server (package zkserver) share this package and no other.
//
// Every message is a struct with two methods written by hand:
//
//	func (m *T) Append(b []byte) []byte // appends the encoded m to b
//	func (m *T) Decode(r *Reader)       // reads m from r; r keeps the first error
//
// A Reader keeps its first error and returns zero values from then on. So a decoder reads straight
// down, and the caller checks once, with [Reader.Complete].
//
// # Allocation
//
// A Reader compares a length from the network with the bytes that are really there before it
// allocates anything for it. So it never allocates more than a small multiple of its input. Byte
// slices returned by a Reader alias its input; strings are copies.
//
// # Null and empty
//
// ZooKeeper distinguishes null data (length -1) from empty data (length 0), and so
// does this package: null is a nil slice, and an empty slice is not nil.
//
// The layout of the records is that of zookeeper.jute in Apache ZooKeeper 3.8.
package zkproto
