package holdfast

import (
	"holdfast/internal/queue"
	"holdfast/internal/queue/names"
)

// What the tests of the waiting, which are in another package, need of the names.

// ContendersOf is the queue of the default layout, first place first: the names, and for each
// those that it waits for.
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

// GracePeriod is how long a Hold does not watch its node.
const GracePeriod = gracePeriod

// Ahead is whom me waits for in the default layout, as found in the names one by one, and in a sorted
// list of them.
func Ahead(listed []string, me string) (alone, inList [2]string, aloneErr, inListErr error) {
	g := names.Default
	a, aloneErr := g.Ahead(listed, me)
	b, inListErr := g.AheadIn(g.NewList(listed), me)
	if a.MayStepDown != b.MayStepDown {
		return [2]string{"may step down", a.Near}, [2]string{"may not", b.Near}, aloneErr, inListErr
	}
	return [2]string{a.Near, a.Far}, [2]string{b.Near, b.Far}, aloneErr, inListErr
}

// Outlive is how Lock goes on after the end of a session.
var Outlive = outlive

// Compile is the grammar of a layout.
func Compile(l Layout) *names.Grammar { return l.compile() }

// SetShareFrom makes fewer places share their lists, until restore is called.
func SetShareFrom(n int) (restore func()) {
	before := queue.ShareFrom
	queue.ShareFrom = n
	return func() { queue.ShareFrom = before }
}
