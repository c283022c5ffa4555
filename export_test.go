package holdfast

import "holdfast/zk"

// What the tests of the waiting, which are in another package, need of the names.

// ContendersOf is the queue of the default layout, first place first: the names, and for each
// those that it waits for.
func ContendersOf(names []string) (queue []string, waitsFor map[string][]string) {
	waitsFor = make(map[string][]string)
	in := LayoutCurator.inQueue(names)
	for i, c := range in {
		queue = append(queue, c.name)
		for _, other := range in[:i] {
			if c.waitsFor(other) {
				waitsFor[c.name] = append(waitsFor[c.name], other.name)
			}
		}
	}
	return queue, waitsFor
}

// Youth is how long a Hold does not watch its node.
const Youth = youth

// HasNursery says whether anything is kept for the tenures of s.
func HasNursery(s *zk.Session) bool {
	nurseries.Lock()
	defer nurseries.Unlock()
	return nurseries.m[s] != nil
}
