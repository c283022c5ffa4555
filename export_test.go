package holdfast

import (
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/tenure"
)

// Exports for the tests of waiting, which are in another package.

func init() { queue.LongFrom = 32 } // queues of more than a few hundred would make the tests slow

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

// SetMostBelow lowers the number of nodes below a tree that a lock of it looks at, until restore is called.
func SetMostBelow(n int) (restore func()) {
	before := queue.MostBelow
	queue.MostBelow = n
	return func() { queue.MostBelow = before }
}
