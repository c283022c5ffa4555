package queue

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"weak"

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
}

// parentMode is the mode of the nodes above the queue, for the one that has to make them.
func (q *Queue) parentMode() zk.Mode {
	if q.Grammar.Container && !containers.refused(q.Client) {
		return zk.Container
	}
	return zk.Persistent
}

// containers knows the clients whose servers have no containers. Other implementations of the protocol have none, and each
// request for one may cost a connection.
var containers = refusals{by: make(map[weak.Pointer[zk.Client]]bool)}

type refusals struct {
	mu sync.Mutex // guards by
	by map[weak.Pointer[zk.Client]]bool
}

func (r *refusals) refused(c *zk.Client) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.by) > 0 && r.by[weak.Make(c)]
}

func (r *refusals) refuse(c *zk.Client) {
	key := weak.Make(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[key] {
		return
	}
	r.by[key] = true
	runtime.AddCleanup(c, func(struct{}) {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.by, key)
	}, struct{}{})
}

// ValidatePath says what is wrong with the path of a lock.
func ValidatePath(path string) error {
	if path == "/" {
		return fmt.Errorf("%w %q: the root cannot be a lock", zk.ErrInvalidPath, path)
	}
	return zk.ValidatePath(path)
}
