package main

import (
	"regexp"
	"strconv"
	"strings"

	"holdfast/zk"
)

// pathReason returns what is wrong with a path. The error quotes the path, and pathReason shortens it.
func pathReason(path string, err error) string {
	return strings.Replace(err.Error(), strconv.Quote(path), strconv.Quote(cut(path, 100)), 1)
}

// lockPath returns the path of the lock called name: the name in the namespace, or the name itself if
// it begins with /.
func (g *globals) lockPath(name string) (string, error) {
	const hint = "give one or more words joined by /, as in db/migrate"
	if name == "" {
		return "", usage(hint, "the lock's name is empty")
	}
	path, short := name, cut(name, 100)
	if !strings.HasPrefix(name, "/") {
		if err := g.checkNamespace(); err != nil {
			return "", err
		}
		path = strings.TrimSuffix(g.namespace, "/") + "/" + name
	}
	if path == "/" {
		return "", usage(hint, "lock name %q: the root cannot be a lock", short)
	}
	if err := zk.ValidatePath(path); err != nil {
		return "", usage(hint, "lock name %q: %s", short, pathReason(path, err))
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == ownDirectory {
			return "", usage("", "lock name %q: %q is where holdfast keeps what outlasts the holders of a lock: choose another name", short, part)
		}
		if strings.HasPrefix(part, probePrefix) {
			return "", usage("", "lock name %q: %s is for the nodes of holdfast doctor: choose another name", short, probePrefix)
		}
		if placeLike.MatchString(part) {
			return "", usage("", "lock name %q: a lock above it would mistake %q for a place in its queue: choose another name", short, cut(part, 100))
		}
	}
	return path, nil
}

// plainPath is lockPath for a lock that is to be acquired, and that is no lock of a tree.
func (g *globals) plainPath(name string) (string, error) {
	path, err := g.lockPath(name)
	if err == nil && strings.Contains(path, "/"+treePart) {
		err = usage("choose another name", "lock name %q: names of queues in a tree begin with %s", cut(name, 100), treePart)
	}
	return path, err
}

// treePart begins the names of the queues of a tree, which are locks of their own in ls and status.
const treePart = "%2F"

// placeLike matches the names that holdfast and its peers give to places in a queue. Below a lock, a
// directory with such a name looks like a holder that never releases, or like a lock of another kind.
var placeLike = regexp.MustCompile(`(?:lock-|__WRIT__|__READ__|latch-|__r?lock__|-[RW]-|_lock_|^x--?\d+-|^lock--?\d+-?)(?:\d{10}|-\d{9,10})$`)

func (g *globals) checkNamespace() error {
	if err := zk.ValidatePath(g.namespace); err != nil {
		return g.blame("namespace", misconfigured("give a path such as /holdfast/locks", "namespace %q: %s", cut(g.namespace, 100), pathReason(g.namespace, err)))
	}
	return nil
}

// lockName returns the user's name of the lock at path. It is the inverse of lockPath.
func (g *globals) lockName(path string) string {
	if name, ok := strings.CutPrefix(path, strings.TrimSuffix(g.namespace, "/")+"/"); ok {
		return name
	}
	return path
}

// ownDirectory is the directory below a lock's path for what outlasts the holders. It is no lock.
const ownDirectory = ".holdfast"

// probePrefix is the beginning of the name of a probe node. ls, graph and watch leave such nodes out.
const probePrefix = ".holdfast-doctor-"
