package tree

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// The test compares the table with plain sets: the watches that are set, and that no entry is left over.
func TestWatchTable(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	w := newWatchTable()
	type watch struct {
		watchKey
		by Watcher
	}
	want := make(map[watch]bool)
	for range 20_000 {
		x := watch{watchKey{watchKind(r.IntN(int(watchKindCount))), fmt.Sprint("/", r.IntN(3))}, Watcher(1 + r.IntN(4))}
		if r.IntN(2) == 0 {
			w.add(x.by, x.watchKey)
			want[x] = true
		} else if got := w.remove(x.by, x.watchKey); got != want[x] {
			t.Fatalf("remove %v: %v; want %v", x, got, want[x])
		} else {
			delete(want, x)
		}
		var armed []Watcher
		for other := range want {
			if other.watchKey == x.watchKey {
				armed = append(armed, other.by)
			}
		}
		got := slices.Sorted(w.armed[x.kind][x.path].all())
		slices.Sort(armed)
		if !slices.Equal(got, armed) || w.has(x.by, x.watchKey) != want[x] || w.count != len(want) {
			t.Fatalf("%v: %v of %d; want %v of %d", x.watchKey, got, w.count, armed, len(want))
		}
	}
	for x := range maps.Clone(want) {
		w.remove(x.by, x.watchKey)
	}
	if n := w.entries(); n+w.count+w.weight+len(w.weights) != 0 {
		t.Errorf("%d entries are left", n)
	}
}
