// Package zkproto holds the messages of the ZooKeeper client protocol, in both
// directions, and the numbers that go with them: operation codes, error codes,
// event types. It does no I/O of its own and starts no goroutine, so the client
// (package zk) and the server (package zkserver) meet here and nowhere else.
//
// Every message is a struct with two methods written by hand:
//
//	func (m *T) Append(b []byte) []byte // the wire form of m behind b
//	func (m *T) Decode(r *Reader)       // m from r; errors stick to r
//
// A Reader keeps its first error and answers zero values from then on, so a
// decoder reads straight down and the caller asks once, with [Reader.Complete].
//
// # Allocation
//
// A length that arrives over the network is compared with the bytes that are
// really there before anything is allocated for it: a Reader never allocates more
// than a small multiple of its input. Byte slices returned by a Reader alias its
// input; strings are copies.
//
// # Null and empty
//
// ZooKeeper tells null data (length -1) from empty data (length 0), and both
// survive here: null is a nil slice, empty is not nil.
//
// The layout of the records is that of zookeeper.jute in Apache ZooKeeper 3.8.
package zkproto
