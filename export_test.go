package holdfast

import (
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
	"holdfast/internal/tenure"
)

// Exports for the tests of waiting, which are in another package.

// ContendersOf returns the queue of the default layout, first place first: the names, and
// for each the names it waits for.
func ContendersOf(listed []string) (queue []string, waitsFor map[string][]string) {
	waitsFor = make(map[string][]string)
	in := names.Default.InQueue(listed)
	for i, c := range in {
		queue = append(queue, c.Name)
		for _, other := range in[:i] {
			if c.WaitsFor(other) {
				waitsFor[c.Name] = append(waitsFor[c.Name], other.Name)
			}
		}
	}
	return queue, waitsFor
}

// GracePeriod is how long a Hold leaves its node unwatched.
const GracePeriod = tenure.GracePeriod

// Ahead returns the nodes me waits for in the default layout, found from the names one by
// one and from a sorted list of them.
func Ahead(listed []string, me string) (alone, inList [2]string, aloneErr, inListErr error) {
	g := names.Default
	a, aloneErr := g.Ahead(listed, me)
	b, inListErr := g.AheadIn(g.NewList(listed), me)
	if a.Replaced != b.Replaced {
		return [2]string{"may step down", a.Near}, [2]string{"may not", b.Near}, aloneErr, inListErr
	}
	return [2]string{a.Near, a.Far}, [2]string{b.Near, b.Far}, aloneErr, inListErr
}

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
