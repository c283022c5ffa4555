package zkserver

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

var (
	images = flag.Int("images", 1500, "crash images that the crash test opens")
	seed   = flag.Uint64("seed", 0, "seed of the crash tests; 0 is a random one, which is printed")
)

func testSeed(t *testing.T) uint64 {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	return *seed
}

func asIs(s store.Store) store.Store { return s }

// crashCount counts the results of crash images.
type crashCount struct{ images, again, runs, writes int }

// crashRun crashes one run n times. It returns one of the survivors, for the next run
// to start from.
func crashRun(t *testing.T, r *run, rng *rand.Rand, n int, count *crashCount) (*survivor, map[string][]byte, error) {
	var (
		survived *survivor
		files    map[string][]byte
	)
	syncs := r.fs.Syncs()
	for i := range n {
		cut := rng.IntN(r.fs.Now() + 1)
		if i%2 == 0 && len(syncs) > 0 {
			cut = syncs[rng.IntN(len(syncs))] + rng.IntN(2) // right before or after a sync returns
		}
		image := r.fs.Image(cut, rng)
		if i%8 == 0 { // or the process is killed
			image = r.fs.Killed(cut)
		}
		seen := r.seen(cut)
		// Power may fail again while the server reads the files of the first failure.
		for depth := 0; ; depth++ {
			fs := crashfs.New(image)
			// Everything is synced, so the boot id does not matter: the same one, another, or none.
			fs.BootID = []store.BootID{{1}, {1, 1}, {}}[rng.IntN(3)]
			found, err := survive(fs)
			count.images++
			if err == nil {
				err = r.h.check(found, seen, r.passwords)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("crash after change %d of %d, %d times again: %w\n%s",
					cut, r.fs.Now(), depth, err, keepImage(image))
			}
			if survived == nil || rng.IntN(n) == 0 {
				survived, files = found, image
			}
			if depth == 2 || rng.IntN(3) > 0 {
				break
			}
			count.again++
			image = fs.Image(rng.IntN(fs.Now()+1), rng)
		}
	}
	count.runs++
	count.writes += len(r.h.entries)
	return survived, files, nil
}

// keepImage writes an image that the check refused to a directory for inspection.
func keepImage(image map[string][]byte) string {
	dir, err := os.MkdirTemp("", "holdfast-crash-")
	for name, data := range image {
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
	}
	return fmt.Sprintf("image in %s (%v)", dir, err)
}

// Power fails, or the process is killed, at any moment: while the store is made, written to,
// merged into a snapshot or loaded, once or three times in a row. The disk keeps any part of
// the bytes that were not synced. The next start finds the state after some write, and no
// earlier write than the last that any client has seen.
//
// A run begins with an image of the run before it, or with an empty directory, or with a
// directory that the first version with this format has written.
func TestCrashImagesArePrefixesThatHaveAllThatWasSeen(t *testing.T) {
	s := testSeed(t)
	rng := rand.New(rand.NewPCG(s, 0))
	var count crashCount
	var (
		start  *survivor
		files  map[string][]byte
		oldest = readGolden(t, goldenFiles(t)[0])
		err    error
	)
	began := time.Now()
	for n := uint64(0); count.images < *images; n++ {
		switch n % 6 {
		case 0:
			start, files = nil, nil
		case 3:
			files = oldest.files
			if start, err = survive(crashfs.New(files)); err != nil {
				t.Fatal(err)
			}
		}
		r, err := runLoad(start, files, s+n, crashfs.Lies{}, asIs)
		if err == nil {
			start, files, err = crashRun(t, r, rng, 100, &count)
		}
		if err != nil {
			t.Fatalf("run %d: %v", n, err)
		}
	}
	t.Logf("%d crash images, %d of them of a recovery, of %d runs with %d writes; %v",
		count.images, count.again, count.runs, count.writes, time.Since(began).Round(time.Millisecond))
}

// A storeThatIsLate reports a batch as durable when the one before it is.
type storeThatIsLate struct {
	store.Store
	late *store.Batch
}

func (s *storeThatIsLate) Commit(b *store.Batch) error {
	b, s.late = s.late, b
	if b == nil {
		return nil
	}
	return s.Store.Commit(b)
}

// The check must find servers that lose acknowledged data.
func TestCrashCheckFindsServersThatLose(t *testing.T) {
	s := testSeed(t)
	for name, broken := range map[string]struct {
		lies crashfs.Lies
		wrap func(store.Store) store.Store
	}{
		"acknowledges before the sync": {lies: crashfs.Lies{Sync: true}, wrap: asIs},
		"does not sync its directory":  {lies: crashfs.Lies{SyncDir: true}, wrap: asIs},
		"is one write behind":          {wrap: func(s store.Store) store.Store { return &storeThatIsLate{Store: s} }},
	} {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(s, 7))
			var count crashCount
			for n := range uint64(5) {
				r, err := runLoad(nil, nil, s+n, broken.lies, broken.wrap)
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err := crashRun(t, r, rng, 100, &count); err != nil {
					t.Logf("found with image %d: %.200s", count.images, strings.Split(err.Error(), "\n")[0])
					return
				}
			}
			t.Errorf("%d images, and the check found no loss", count.images)
		})
	}
}
