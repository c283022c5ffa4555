package conn

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"holdfast/internal/cli/term"
	"holdfast/zk"
)

// PathReason returns what is wrong with a path. The error quotes the path, and PathReason shortens it.
func PathReason(path string, err error) string {
	return strings.Replace(err.Error(), strconv.Quote(path), strconv.Quote(term.Cut(path, 100)), 1)
}

// LockPath returns the path of the lock called name: the name in the namespace, or the name itself if
// it begins with /.
func (g *Flags) LockPath(name string) (string, error) {
	const hint = "give one or more words joined by /, as in db/migrate"
	if name == "" {
		return "", term.Usage(hint, "the lock's name is empty")
	}
	path, short := name, term.Cut(name, 100)
	if !strings.HasPrefix(name, "/") {
		if err := g.CheckNamespace(); err != nil {
			return "", err
		}
		path = strings.TrimSuffix(g.Namespace, "/") + "/" + name
	}
	if path == "/" {
		return "", term.Usage(hint, "lock name %q: the root cannot be a lock", short)
	}
	if err := zk.ValidatePath(path); err != nil {
		return "", term.Usage(hint, "lock name %q: %s", short, PathReason(path, err))
	}
	for part := range strings.SplitSeq(path[1:], "/") {
		if part == OwnDirectory {
			return "", term.Usage("", "lock name %q: %q is where holdfast keeps what outlasts the holders of a lock: choose another name", short, part)
		}
		if strings.HasPrefix(part, ProbePrefix) {
			return "", term.Usage("", "lock name %q: %s is for the nodes of holdfast doctor: choose another name", short, ProbePrefix)
		}
		if placeLike(part) {
			return "", term.Usage("", "lock name %q: a lock above it would mistake %q for a place in its queue: choose another name", short, term.Cut(part, 100))
		}
	}
	return path, nil
}

// PlainPath is LockPath for a lock that is to be acquired, and that is no lock of a tree.
func (g *Flags) PlainPath(name string) (string, error) {
	path, err := g.LockPath(name)
	if err == nil && strings.Contains(path, "/"+TreePart) {
		err = term.Usage("choose another name", "lock name %q: names of queues in a tree begin with %s", term.Cut(name, 100), TreePart)
	}
	return path, err
}

// TreePart begins the names of the queues of a tree, which are locks of their own in ls and status.
const TreePart = "%2F"

// placeLike reports whether a name is like those that holdfast and its peers give to places in a queue. Below a lock, a
// directory with such a name looks like a holder that never releases, or like a lock of another kind.
func placeLike(part string) bool {
	// All of them end in nine digits or more. Most names do not, so a start need not compile the expression.
	end := part[max(0, len(part)-9):]
	return len(end) == 9 && strings.Trim(end, "0123456789") == "" && placeForms().MatchString(part)
}

var placeForms = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:lock-|__WRIT__|__READ__|latch-|__r?lock__|-[RW]-|_lock_|^x--?\d+-|^lock--?\d+-?)(?:\d{10}|-\d{9,10})$`)
})

// CheckNamespace returns an error if the namespace is no path.
func (g *Flags) CheckNamespace() error {
	if err := zk.ValidatePath(g.Namespace); err != nil {
		return g.blame("namespace", term.Misconfigured("give a path such as /holdfast/locks", "namespace %q: %s", term.Cut(g.Namespace, 100), PathReason(g.Namespace, err)))
	}
	return nil
}

// LockName returns the user's name of the lock at path. It is the inverse of LockPath.
func (g *Flags) LockName(path string) string {
	if name, ok := strings.CutPrefix(path, strings.TrimSuffix(g.Namespace, "/")+"/"); ok {
		return name
	}
	return path
}

// OwnDirectory is the directory below a lock's path for what outlasts the holders. It is no lock.
const OwnDirectory = ".holdfast"

// ProbePrefix is the beginning of the name of a probe node. ls, graph and watch leave such nodes out.
const ProbePrefix = ".holdfast-doctor-"

// LockPrefix returns the prefix of the paths of the locks that a command is about. args has at most one
// prefix of names.
func LockPrefix(g *Flags, args []string) (string, error) {
	prefix := ""
	if len(args) > 0 {
		prefix = args[0]
	}
	if !strings.HasPrefix(prefix, "/") {
		if err := g.CheckNamespace(); err != nil {
			return "", err
		}
		prefix = strings.TrimSuffix(g.Namespace, "/") + "/" + prefix
	}
	if err := zk.ValidatePath(Parent(prefix)); err != nil {
		return "", term.Usage("give the beginning of a lock's name, as in db/", "prefix: %s", PathReason(Parent(prefix), err))
	}
	return prefix, nil
}

// Parent returns the node above all paths that begin with prefix.
func Parent(prefix string) string {
	if i := strings.LastIndexByte(prefix, '/'); i > 0 {
		return prefix[:i]
	}
	return "/"
}

// NearestNode returns the deepest node on the way to path that exists.
func NearestNode(ctx context.Context, c *zk.Client, path string) (string, error) {
	for path != "" {
		_, there, err := c.Exists(ctx, path)
		if err != nil || there {
			return path, err
		}
		path = path[:strings.LastIndexByte(path, '/')]
	}
	return "/", nil
}
