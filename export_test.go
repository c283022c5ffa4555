package holdfast

import "holdfast/zk"

// What the tests of the waiting, which are in another package, need of the names.

// ContendersOf is the queue of the default layout, first place first: the names, and for each
// those that it waits for.
func ContendersOf(names []string) (queue []string, waitsFor map[string][]string) {
	waitsFor = make(map[string][]string)
	in := curator.inQueue(names)
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

// SetManyPlaces is for crowds that a test can take in, until restore is called.
func SetManyPlaces(n int) (restore func()) {
	before := manyPlaces
	manyPlaces = n
	return func() { manyPlaces = before }
}

// Ahead is whom me waits for in the default layout, as found among the names one by one, and
// in a roll of them.
func Ahead(names []string, me string) (alone, inRoll [2]string, aloneErr, inRollErr error) {
	a, aloneErr := curator.ahead(names, me)
	r := newRoll(curator, names)
	b, inRollErr := r.ahead(curator, me)
	if a.mayStepDown != b.mayStepDown {
		return [2]string{"may step down", a.near}, [2]string{"may not", b.near}, aloneErr, inRollErr
	}
	return [2]string{a.near, a.far}, [2]string{b.near, b.far}, aloneErr, inRollErr
}
