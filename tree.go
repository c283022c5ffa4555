package holdfast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"holdfast/internal/queue"
	"holdfast/zk"
)

// A Tree locks paths together with everything below them. A lock of "a" excludes locks of "a/b", and the reverse.
// Locks of "a/b" and "a/c" are held side by side.
//
// A lock of a path is several locks: the path itself, and the read side of each of its ancestors (multiple
// granularity locking, Gray 1976). Every path has a queue of its own, as an RWMutex has. So a caller that wants "a"
// waits for the holders below "a", and later callers below "a" wait for it.
//
// The locks are acquired from the path upwards, and the tree's root comes last. [Hold.Token] returns the root's
// token. (In a MultiLock with other locks, look for it in [Hold.Tokens]: its path is <path>/%2F.) Of two holders that
// exclude each other, the later one has the larger token, also if one path is above the other. The tokens of the
// other parts have no such order. So use fence.Check with Token, and not fence.InTx, which checks all of them. Give
// each resource in the tree a name of its own, such as its path: with one name for the whole tree, holders side by
// side would refuse each other.
//
// All locks at the tree's path and below it must be taken through the tree. A lock of the tree beside another lock
// there, of whatever kind, is refused with ErrKind, whichever came first (if the two come together, at least one).
// When a lock of the tree takes the root, it lists the tree's path. If that has other children than the tree's
// queues, it looks at all nodes below them, at most 10,000. So give the tree a path with nothing else below it.
//
// Other locks watch for the directory of the tree's root, <path>/%2F. A server sends no event of a node that the client
// may not read. So with [WithACL], the tree still lets everybody read this directory: the names of its nodes, not their
// data. If somebody makes the directory by hand with an ACL that hides it, a lock below can miss the tree for a minute.
type Tree struct {
	client *zk.Client
	path   string
	opts   []Option
}

// The paths of a Tree are bounded: every part costs a node and a round trip.
const (
	maxTreeDepth = 64
	maxTreePath  = 1000
)

// NewTree names the tree at path. Its queues are in nodes below that one, containers. The name of such a node is the
// path with a slash in front, escaped as in a URL: <path>/%2F for the root, <path>/%2Fa%2Fb for "a/b". List and Break
// take these paths.
func NewTree(c *zk.Client, path string, opts ...Option) *Tree {
	return &Tree{client: c, path: path, opts: opts}
}

// Path is the lock of a path of the tree and of all paths below it. The parts of a path are separated by "/"; "" is
// the whole tree. Lock and TryLock work as those of a [MultiLock]. They fail with zk.ErrBadArguments if a part of the
// path is empty, if the path is longer than 1,000 bytes or deeper than 64 parts, or if the layout has no readers, or
// no {uuid} or {hex}.
//
// With a context that descends from a Hold of the same tree, they fail with ErrDeadlock, whatever the path: a caller
// that waits for that Hold may have the path already. Lock several paths with one MultiLock instead.
func (t *Tree) Path(path string) Locker { return t.of(path) }

// of returns the locks of a path.
func (t *Tree) of(path string) *MultiLock {
	m := &MultiLock{tree: t.path}
	if m.err = queue.ValidatePath(t.path); m.err != nil {
		return m
	}
	names, err := treeNames(path)
	if err != nil {
		m.err = err
		return m
	}
	for i, name := range names {
		kind := queue.Kind("")
		if i == 0 { // every lock of the tree takes the root, and takes it last
			kind = queue.Tree
		}
		l := &RWMutex{newPart(t.client, t.path+"/"+name, t.path, kind, newOptions("a Tree", t.opts))}
		if g := l.lock.Grammar; g.Read == "" || !g.Read.Unique() || !g.Write.Unique() {
			m.err = fmt.Errorf("%w: a Tree needs a layout with readers and with {uuid} or {hex} in its names, such as curator or kazoo", zk.ErrBadArguments)
		}
		m.err = cmp.Or(m.err, l.lock.refused)
		p := part{Locker: l, lock: &l.lock, strength: writeStrength, tree: true}
		if i < len(names)-1 {
			p.Locker, p.strength = l.RLocker(), readStrength
		}
		m.parts = append(m.parts, p)
	}
	slices.Reverse(m.parts)
	return m
}

// treeNames returns the names of the nodes for the root of a tree and all paths down to path. The names
// begin with an escaped "/", so that none of them is that of another kind's directory.
func treeNames(path string) ([]string, error) {
	if len(path) > maxTreePath {
		return nil, fmt.Errorf("%w: the path has %d bytes, and a Tree takes up to %d", zk.ErrBadArguments, len(path), maxTreePath)
	}
	names := []string{zk.EscapeName("/")}
	if path == "" {
		return names, nil
	}
	parts := strings.Split(path, "/")
	if len(parts) > maxTreeDepth {
		return nil, fmt.Errorf("%w: the path %.100q has %d parts, and a Tree takes up to %d", zk.ErrBadArguments, path, len(parts), maxTreeDepth)
	}
	name := ""
	for _, part := range parts {
		if part == "" {
			return nil, fmt.Errorf(`%w: the path %.100q of a Tree has an empty part: write "a/b", without a slash at either end`, zk.ErrBadArguments, path)
		}
		name += zk.EscapeName("/" + part)
		names = append(names, name)
	}
	return names, nil
}
