package queue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"holdfast/internal/queue/names"
	"holdfast/zk"
)

// ErrLocked means that somebody is ahead, and the caller does not wait.
var ErrLocked = errors.New("locked by another")

// ErrGone means that our node is not there any more. Either somebody has removed it, or the server
// has ended our session and has not told us yet.
var ErrGone = names.ErrGone

// A Queue is the children of one node, in the order of their numbers. It is immutable.
type Queue struct {
	Client  *zk.Client
	Path    string
	Kind    Kind // of the lock that it is, or is a part of
	Grammar *names.Grammar
	ACL     []zk.ACL
	Beside  []zk.Op // reads that a place sends with its create; see Place.Seen
	// Prefers says that the names of the nodes have the Preference, if they tell attempts apart.
	Prefers    bool
	Preference int
	// Process is the client's, in the names of the nodes, where their data are the program's; nil: none. The names must tell
	// attempts apart, or it has no effect.
	Process []byte

	trees []string // the queues of the roots of trees above; see Surround
	outer *Queue   // the lock that it is a part of, at another path; nil: none
}

// parentMode is the mode of the nodes above the queue, for the one that has to make them.
func (q *Queue) parentMode() zk.Mode {
	if q.Grammar.Container && !noContainers.Of(q.Client).Load() {
		return zk.Container
	}
	return zk.Persistent
}

// directoryACL is the ACL of a directory that a place has to make. Everybody may read the directory of a tree's root: a
// client that may not read it would not be told that it exists (see absent.go).
func (q *Queue) directoryACL(dir string) []zk.ACL {
	if len(q.ACL) == 0 || !strings.HasSuffix(dir, "/"+TreeRoot) {
		return q.ACL
	}
	return append(slices.Clone(q.ACL), zk.ACL{Perms: zk.PermRead, Scheme: "world", ID: "anyone"})
}

// TreeRoot is the name of the queue of a tree's root, below the path of the tree. Every lock of the tree has a
// place in it while it is held.
const TreeRoot = TreePart

// TreePart begins the names of the queues of a tree, below the path of the tree.
const TreePart = "%2F"

// Surround makes places of q look at trees above path. If outer is not nil, q is a part of that lock, and places
// look for other kinds of lock at the path of outer, too.
func (q *Queue) Surround(path string, outer *Queue) {
	q.outer, q.trees = outer, nil
	cut := strings.LastIndexByte(path, '/')
	for i := 1; i < len(path); i++ {
		// A queue of a tree is no stranger to that tree.
		if path[i] == '/' && !(i == cut && strings.HasPrefix(path[i+1:], TreePart)) {
			q.trees = append(q.trees, path[:i]+"/"+TreeRoot)
		}
	}
}

// noContainers says that a client's servers have no containers. Other implementations of the protocol have none, and each
// request for one may cost a connection.
var noContainers zk.Shared[atomic.Bool]

// ValidatePath says what is wrong with the path of a lock.
func ValidatePath(path string) error {
	switch parts := strings.Count(path, "/"); {
	case path == "":
		return fmt.Errorf("%w: it is empty: the path of a lock is like /locks/nightly", zk.ErrInvalidPath)
	case path == "/":
		return fmt.Errorf("%w %q: the root cannot be a lock", zk.ErrInvalidPath, path)
	case parts > maxParts:
		return fmt.Errorf("%w %.60q…: it has %d parts, and the path of a lock has at most %d", zk.ErrInvalidPath, path, parts, maxParts)
	}
	return zk.ValidatePath(path)
}

// maxParts bounds the parts of a path: a place looks at a node for each of them.
const maxParts = 128
