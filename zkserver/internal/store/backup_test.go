package store_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

// counting returns a Visitor that counts nodes.
func counting(nodes *int) store.Visitor {
	return store.Visitor{
		Node:    func(string, byte, []byte) error { *nodes++; return nil },
		Session: func(int64, []byte) error { return nil },
	}
}

// A server writes two batches while a backup looks for the end of the journal. The second batch
// says that the first is durable, but the backup has not seen the first. That is no damage.
func TestBackUpOfAJournalThatGrows(t *testing.T) {
	fs := crashfs.New(nil)
	j := store.OpenOn(fs, 1<<20)
	mustLoad(t, j)
	for i := range 10 {
		mustCommit(t, j, put(fmt.Sprint("/", i), strings.Repeat("x", 100)))
	}
	for at := 1; ; at++ { // the server writes before this read of the journal
		reads, written := 0, false
		fs.Fail = func(c crashfs.Call) (int, error) {
			if c.Op == "read" && strings.HasSuffix(c.Name, ".journal") && !written {
				if reads++; reads == at {
					written = true
					for i := range 2 {
						mustCommit(t, j, put(fmt.Sprint("/during", at, i), "y"))
					}
				}
			}
			return 0, nil
		}
		dest := crashfs.New(nil)
		if err := store.Copy(fs, dest); err != nil {
			t.Fatalf("two commits before read %d: %v", at, err)
		}
		if _, err := store.CheckFS(dest, counting(new(int))); err != nil {
			t.Fatalf("two commits before read %d: the copy: %v", at, err)
		}
		if !written {
			break
		}
	}
	fs.Fail = nil
	mustClose(t, j)
}

// A store that has lost its end is not copied as if it were complete. A start without a commit
// leaves an empty journal after the damaged one.
func TestBackUpRefusesAStoreThatHasLostItsEnd(t *testing.T) {
	for _, starts := range []int{1, 2} {
		t.Run(fmt.Sprint(starts, " starts"), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			j := mustOpen(t, dir)
			mustLoad(t, j)
			mustCommit(t, j, put("/a", "x"))
			mustCommit(t, j, put("/b", "x"))
			mustClose(t, j)
			for range starts - 1 {
				j := mustOpen(t, dir)
				mustLoad(t, j)
				mustClose(t, j)
			}
			name := filepath.Join(dir, "store", "00000001.journal")
			info, err := os.Stat(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(name, info.Size()-5); err != nil {
				t.Fatal(err)
			}
			dest := filepath.Join(t.TempDir(), "copy")
			if _, err := store.BackUp(dir, dest, func() store.Visitor { return counting(new(int)) }); !errors.Is(err, store.ErrDamaged) {
				t.Errorf("%v; want ErrDamaged", err)
			}
			if _, err := os.Stat(dest); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the refused backup left a copy: %v", err)
			}
		})
	}
}

// After a power failure, the journal after a snapshot may have no batch yet.
func TestBackUpOfASnapshotWithAnEmptyJournal(t *testing.T) {
	disk := crashfs.New(nil)
	j := store.OpenOn(disk, 1<<10)
	mustLoad(t, j)
	n := 0
	for ; !j.Compacting(); n++ {
		mustCommit(t, j, put(fmt.Sprint("/", n), strings.Repeat("a", 100)))
	}
	if err := j.Settle(); err != nil {
		t.Fatal(err)
	}
	files := disk.Killed(disk.Now())
	mustClose(t, j)
	delete(files, store.WitnessFile)
	cut := 0
	for name, b := range files {
		if strings.HasSuffix(name, ".journal") {
			files[name], cut = b[:store.FileHeader], cut+1
		}
	}
	if cut != 1 {
		t.Fatalf("%d journals; want 1", cut)
	}
	dest := crashfs.New(nil)
	if err := store.Copy(crashfs.New(files), dest); err != nil {
		t.Fatal(err)
	}
	found := 0
	_, err := store.CheckFS(dest, counting(&found))
	if err != nil || found < n-1 {
		t.Errorf("%v; %d nodes of %d", err, found, n)
	}
}

var damagedCopies = flag.Int("backups", 300, "copies that are made under load and damaged")

// Copies are made while the store is written, and each is cut off, zeroed at its end, and has a flipped bit, anywhere. Check
// and a start find all of it. What is left in the journals can be accepted by hand, as the error says.
//
//	go test -run DamagedCopies . -backups 1000 -v
func TestDamagedCopiesAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(testSeed(t), 5))
	fs := crashfs.New(nil)
	j := store.OpenOn(fs, 1<<12)
	mustLoad(t, j)
	h := &history{start: map[string]string{}, acks: []ack{{}}}
	w := writer{rng: rand.New(rand.NewPCG(*seed, 6)), value: 200, batch: 3, later: 0.2}
	damages, accepted, more, stopped := 0, 0, make(chan struct{}, 1), make(chan error)
	go func() {
		var err error
		for range more {
			err = errors.Join(err, w.write(j, fs, h, 20))
		}
		stopped <- err
	}()
	for n := range *damagedCopies {
		more <- struct{}{} // written while the copy is made
		to := crashfs.New(nil)
		err := store.Copy(fs, to)
		for tries := 0; errors.Is(err, os.ErrNotExist) && tries < 100; tries++ { // a snapshot has replaced a file
			to = crashfs.New(nil)
			err = store.Copy(fs, to)
		}
		if err != nil {
			t.Fatal(err)
		}
		files := to.Killed(to.Now())
		sound, err := store.CheckFS(to, counting(new(int)))
		if err != nil {
			t.Fatalf("copy %d: %v", n, err)
		}
		for _, way := range []string{"cut off", "zeroed", "flipped"} {
			damaged := maps.Clone(files)
			name, what := damage(rng, damaged, way)
			damages++
			if damagedIsFound(t, damaged, name, fmt.Sprintf("copy %d, %s", n, what), sound) {
				accepted++
			}
		}
	}
	close(more)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	t.Logf("%d copies of %d batches, %d damages, all found, %d accepted by hand", *damagedCopies, len(h.batches), damages, accepted)
}

// damage damages one of the files at a random byte, and says what it has done.
func damage(rng *rand.Rand, files map[string][]byte, way string) (name, what string) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool { return len(files[name]) == 0 })
	for {
		name = names[rng.IntN(len(names))]
		b := slices.Clone(files[name])
		at := rng.IntN(len(b))
		if rng.IntN(2) == 0 {
			at = max(len(b)-1-rng.IntN(600), 0) // in the last batches
		}
		switch way {
		case "cut off":
			b = b[:at]
		case "zeroed":
			if clear(b[at:]); bytes.Equal(b, files[name]) {
				continue // it had zeros there
			}
		case "flipped":
			b[at] ^= 1 << rng.IntN(8)
		}
		what = fmt.Sprintf("%s %s at byte %d of %d", name, way, at, len(files[name]))
		files[name] = b
		return name, what
	}
}

// damagedIsFound checks that the damage of a file is found, and reports whether what is left can be accepted by hand.
func damagedIsFound(t *testing.T, files map[string][]byte, name, what string, sound store.Summary) (accepted bool) {
	t.Helper()
	damaged := crashfs.New(files)
	_, err := store.CheckFS(damaged, counting(new(int)))
	started := store.OpenOn(damaged, 1<<12)
	_, loaded := load(started)
	mustClose(t, started)
	if !errors.Is(err, store.ErrDamaged) || !errors.Is(loaded, store.ErrDamaged) || damaged.Now() != 0 {
		t.Fatalf("%s: check: %v; start: %v, with %d changes", what, err, loaded, damaged.Now())
	}
	text := err.Error()
	if !strings.Contains(text, "write the word accepted into d/copied") {
		if !strings.HasSuffix(name, ".snapshot") && !strings.Contains(text, "header is damaged") {
			t.Fatalf("%s: %v; want what to do", what, err)
		}
		return false
	}
	if _, after, cut := strings.Cut(text, "(truncate -s "); cut {
		size := 0
		if _, err := fmt.Sscan(strings.SplitN(after, ")", 2)[0], &size); err != nil {
			t.Fatal(err)
		}
		files[name] = files[name][:size]
		maps.DeleteFunc(files, func(other string, _ []byte) bool { return strings.HasSuffix(other, ".journal") && other > name })
	}
	files["copied"] = []byte("accepted\n")
	left, err := store.CheckFS(crashfs.New(files), counting(new(int)))
	if err != nil && !errors.Is(err, store.ErrFormat) { // no batch is left
		t.Fatalf("%s, accepted by hand: %v", what, err)
	}
	if err == nil && name != "copied" && left.Batches >= sound.Batches {
		t.Fatalf("%s, accepted by hand: %d batches of %d", what, left.Batches, sound.Batches)
	}
	return true
}

// A copy is a copy until Restored.
func TestACopySaysSoUntilItIsRestored(t *testing.T) {
	fs := crashfs.New(nil)
	j := store.OpenOn(fs, 1<<12)
	mustLoad(t, j)
	mustCommit(t, j, put("/a", "x"))
	to := crashfs.New(nil)
	before := time.Now()
	if err := store.Copy(fs, to); err != nil {
		t.Fatal(err)
	}
	mustClose(t, j)
	for n := range 3 {
		j := store.OpenOn(to, 1<<12)
		c := mustLoad(t, j)
		if at := c.meta.Copied; at.Before(before) || at.After(time.Now()) {
			t.Errorf("start %d: copied at %v", n, at)
		}
		mustCommit(t, j, put("/b", "x"))
		mustClose(t, j)
	}
	again := crashfs.New(nil) // a copy of the copy
	if err := store.Copy(to, again); err != nil {
		t.Fatal(err)
	}
	for _, on := range []*crashfs.FS{to, again} {
		j := store.OpenOn(on, 1<<12)
		if c := mustLoad(t, j); c.meta.Copied.IsZero() || c.nodes["/b"] != "x" {
			t.Errorf("%+v", c)
		}
		if err := j.Restored(); err != nil {
			t.Fatal(err)
		}
		mustClose(t, j)
		j = store.OpenOn(on, 1<<12)
		if c := mustLoad(t, j); !c.meta.Copied.IsZero() {
			t.Errorf("copied at %v", c.meta.Copied)
		}
		mustClose(t, j)
	}
}
