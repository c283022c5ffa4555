package zkserver

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"holdfast/zkserver/internal/store"
)

var damageShare = flag.Float64("damages", 0.02, "share of all possible damages that the damage test tries; 1 is every bit")

// damages tries what can be wrong with one file of a directory, one after the other.
func damages(g *golden, each func(what string, files map[string][]byte)) {
	for _, name := range slices.Sorted(maps.Keys(g.files)) {
		data := g.files[name]
		with := func(d []byte) map[string][]byte {
			files := maps.Clone(g.files)
			files[name] = d
			return files
		}
		for i := range data {
			for bit := range 8 {
				d := slices.Clone(data)
				d[i] ^= 1 << bit
				each(fmt.Sprintf("%s: bit %d of byte %d of %d flipped", name, bit, i, len(data)), with(d))
			}
			each(fmt.Sprintf("%s: cut off behind %d bytes of %d", name, i, len(data)), with(data[:i]))
		}
		files := maps.Clone(g.files)
		delete(files, name)
		each(name+": missing", files)
	}
}

var digits = regexp.MustCompile(`[0-9a-f]{6,}|[0-9]+`)

// One bit that flips, one file that loses its end or is lost altogether: what is found
// then is all that was acknowledged, or an error that says what is wrong.
func TestDamageIsDetectedOrHarmless(t *testing.T) {
	seed := testSeed(t)
	parts := int(max(1, 50**damageShare)) // each leaves much behind, see inChild
	for part := range parts {
		t.Run(fmt.Sprint("part", part), func(t *testing.T) {
			if child, done := inChild(t); child {
				defer done()
				tryDamages(t, part, parts, rand.New(rand.NewPCG(seed, 0)))
			}
		})
	}
}

// tryDamages tries its share of one part of all damages.
func tryDamages(t *testing.T, part, parts int, rng *rand.Rand) {
	g := readGolden(t, fmt.Sprintf("testdata/format%d.txt", store.Format))
	began := time.Now()
	n, tried, detected := 0, 0, 0
	says := make(map[string]int)
	damages(g, func(what string, files map[string][]byte) {
		if n++; n%parts != part || rng.Float64() >= *damageShare {
			return
		}
		tried++
		found, err := g.find(files)
		if err != nil {
			detected++
			says[digits.ReplaceAllString(err.Error(), "#")]++
			if !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrFormat) {
				t.Errorf("%s: %v; want ErrDamaged or ErrFormat", what, err)
			}
			return
		}
		if err := g.compare(found); err != nil {
			t.Errorf("%s: not noticed: %v", what, err)
		}
	})
	for _, s := range slices.Sorted(maps.Keys(says)) {
		if says[s] > 1 {
			t.Log(says[s], s)
		}
	}
	t.Logf("figure: %d damages, %d detected, %d harmless; %v", tried, detected, tried-detected, time.Since(began).Round(time.Millisecond))
}

// Without the witness, which may be old after a power failure, the log alone tells damage
// from its end, as long as there is a block of it behind.
func TestDamageInTheMiddleOfTheLogIsDetectedWithoutTheWitness(t *testing.T) {
	child, done := inChild(t)
	if !child {
		return
	}
	defer done()
	fs := newRecordingFS(nil)
	if acked, err := loadBroken(fs, &brokenDisk{}, func(*pebble.Options) {}); err != nil || len(acked) != 80 {
		t.Fatalf("%d acknowledged, %v", len(acked), err)
	}
	files := fs.image(fs.now(), rand.New(rand.NewPCG(1, 1)))
	var log string
	for name := range files {
		if strings.HasSuffix(name, ".log") && len(files[name]) > 4<<15 {
			log = name
		}
	}
	if log == "" {
		t.Fatal("no log of several blocks")
	}
	if _, err := survive(newRecordingFS(files)); err != nil {
		t.Fatalf("without damage: %v", err)
	}
	delete(files, "committed")
	sound := files[log]
	for at := 100; at < len(sound)-2<<15; at += 5000 {
		files[log] = slices.Clone(sound)
		files[log][at] ^= 1
		if _, err := survive(newRecordingFS(files)); !errors.Is(err, store.ErrDamaged) {
			t.Errorf("byte %d of %d: %v; want ErrDamaged", at, len(sound), err)
		}
	}
}

// The message of a log that has lost its end says how to go on, and that works.
func TestALostEndOfTheLogCanBeAccepted(t *testing.T) {
	g := readGolden(t, fmt.Sprintf("testdata/format%d.txt", store.Format))
	for name, data := range g.files {
		if strings.HasSuffix(name, ".log") {
			g.files[name] = data[:len(data)*3/4]
		}
	}
	_, err := g.find(g.files)
	if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), "remove "+crashDir+"/committed") {
		t.Fatalf("open: %v; want ErrDamaged, and what to remove", err)
	}
	delete(g.files, "committed")
	found, err := g.find(g.files)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.nodes) >= len(g.nodes) {
		t.Errorf("%d nodes of %d: nothing was lost, so there was nothing to accept", len(found.nodes), len(g.nodes))
	}
}
