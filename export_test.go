package holdfast

import (
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/tenure"
)

// Exports for the tests of waiting, which are in another package.

// GracePeriod is how long a Hold leaves its node unwatched.
const GracePeriod = tenure.GracePeriod

// DespiteRemoval retries TryLock after the removal of its node.
var DespiteRemoval = despiteRemoval

// Outlive retries Lock after the end of a session.
var Outlive = outlive

// Compile returns the grammar of a layout.
func Compile(l Layout) *names.Grammar { return l.compile() }

// SetShareFrom lowers the number of places from which they share lists, until restore is called.
func SetShareFrom(n int) (restore func()) {
	before := queue.ShareFrom
	queue.ShareFrom = n
	return func() { queue.ShareFrom = before }
}

// EscapeKey returns the name of the directory of a Once's key.
var EscapeKey = escapeKey

// ReadMark reads the data of a Once's mark, and writes them again.
func ReadMark(data []byte) (r Result, again []byte, err error) {
	m, err := parseMark("/mark", data)
	if err != nil {
		return Result{}, nil, err
	}
	return m.result(), m.encode(), m.outcome()
}

// OnceShard returns the directory above that of a Once's key.
func OnceShard(name string) string { m := marksOf("", name); return m.shard }

// OnceDirectory returns the directory of a Once's key.
func OnceDirectory(path, key string) string { m := marksOf(path, key); return m.dir }

// SetMostBelow lowers the number of nodes below a tree that a lock of it looks at, until restore is called.
func SetMostBelow(n int) (restore func()) {
	before := queue.MostBelow
	queue.MostBelow = n
	return func() { queue.MostBelow = before }
}
