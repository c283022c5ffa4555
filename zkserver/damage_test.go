package zkserver

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"time"

	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

var damageShare = flag.Float64("damages", 0.02, "share of all possible damages that the damage test tries; 1 is every bit")

var digits = regexp.MustCompile(`[0-9a-f]{6,}|[0-9]+`)

// One bit flips, or one file loses its end or is missing. The server then finds everything that was
// acknowledged, or returns an error that names the damage.
func TestDamageIsDetectedOrHarmless(t *testing.T) {
	rng := rand.New(rand.NewPCG(testSeed(t), 0))
	g := readGolden(t, fmt.Sprintf("testdata/format%d.txt", store.Format))
	began := time.Now()
	tried, detected := 0, 0
	says := make(map[string]int)
	crashfs.Damages(g.files, func(what string, files map[string][]byte) {
		if rng.Float64() >= *damageShare {
			return
		}
		tried++
		found, err := g.find(files)
		if err != nil {
			detected++
			says[digits.ReplaceAllString(err.Error(), "#")]++
			if !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%s: %v; want ErrDamaged", what, err)
			}
			return
		}
		if err := g.compare(found); err != nil {
			t.Errorf("%s: the damage was not detected: %v", what, err)
		}
	})
	for _, s := range slices.Sorted(maps.Keys(says)) {
		if says[s] > 1 {
			t.Log(says[s], s)
		}
	}
	t.Logf("%d damages, %d detected, %d harmless; %v", tried, detected, tried-detected, time.Since(began).Round(time.Millisecond))
}
