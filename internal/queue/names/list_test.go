package names

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestRollSaysTheSameAsTheNames(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 2))
	for range 20_000 {
		start := [...]int32{0, 1<<31 - 4, -3, -1 << 31, 17}[rng.IntN(5)]
		var names []string
		for i := range int32(rng.IntN(8)) {
			form := [...]string{"lock-", "__WRIT__", "__READ__", "nothing-"}[rng.IntN(4)]
			seq := start + i
			switch rng.IntN(12) {
			case 0:
				seq = rng.Int32() - rng.Int32() // as if made by hand
			case 1:
				seq-- // two nodes have it
			}
			names = append(names, fmt.Sprintf("_c_%d-%s%010d", i, form, seq))
		}
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for _, me := range append(names, "_c_-lock-0000000003") {
			a, aloneErr := Default.Ahead(names, me)
			b, inRollErr := Default.AheadIn(Default.NewList(names), me)
			alone, inRoll := fmt.Sprint(a.Replaced, a.Near, " ", a.Far), fmt.Sprint(b.Replaced, b.Near, " ", b.Far)
			if aloneErr != inRollErr {
				t.Fatalf("seed %d: %s in %q: %v from the names, %v from a shared list", seed, me, names, aloneErr, inRollErr)
			}
			if alone != inRoll && !twins(names) {
				t.Fatalf("seed %d: %s in %q: %q from the names, %q from a shared list", seed, me, names, alone, inRoll)
			}
		}
	}
}

// twins reports whether a number occurs twice. Then it is undefined which of the two is nearer.
func twins(names []string) bool {
	seen := make(map[string]bool)
	for _, n := range names {
		number := n[len(n)-10:]
		if seen[number] {
			return true
		}
		seen[number] = true
	}
	return false
}
