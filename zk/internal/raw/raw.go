// Package raw is the way of package zk/admin into package zk. No other program can import it.
package raw

import "holdfast/zkproto"

// A Request is one operation that package zk has no method for.
type Request struct {
	Op    zkproto.Op
	Path  string // for the error; the path of a watch
	Body  interface{ Append(b []byte) []byte }
	Reply interface{ Decode(r *zkproto.Reader) }
	Watch bool // the body asks for a watch on the data of Path, a path without a chroot
}
