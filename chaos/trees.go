package chaos

import (
	"net/url"
	"strings"
)

// TreeLocks returns the locks that a lock of a path of the holdfast.Tree at tree consists of, the root first:
// the read side of every ancestor, and the path itself.
func TreeLocks(tree, path string) []Op {
	slash := url.PathEscape("/")
	ops := []Op{{Lock: tree + "/" + slash, Type: ReadWrite}}
	if path == "" {
		return ops
	}
	name := ""
	for part := range strings.SplitSeq(path, "/") {
		name += slash + url.PathEscape(part)
		ops[len(ops)-1].Shared = true
		ops = append(ops, Op{Lock: tree + "/" + name, Type: ReadWrite})
	}
	return ops
}

// trees checks the tokens of a Tree at one of its paths. Of two holders that exclude each other there, the
// later one must have the larger token of the root.
func (l *lock) trees() []Violation {
	var vs []Violation
	var last, lastWriter *claim // with the largest token of the root so far
	for _, c := range l.claims {
		if c.Tree == 0 || c.Inside != 0 || c.until <= c.from() { // the last: taken away before the client was told
			continue
		}
		rival := last
		if c.Shared {
			rival = lastWriter
		}
		if rival != nil && c.Tree <= rival.Tree {
			vs = append(vs, l.violation("tree token", "%v was granted after %v; the tokens of the tree are %d and %d", c.Op, rival.Op, c.Tree, rival.Tree))
		}
		if last == nil || c.Tree > last.Tree {
			last = c
		}
		if !c.Shared && (lastWriter == nil || c.Tree > lastWriter.Tree) {
			lastWriter = c
		}
	}
	return vs
}
