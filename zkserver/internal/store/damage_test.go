package store_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

// A specimen is a small store with a snapshot and two journals, and its contents.
type specimen struct {
	files map[string][]byte
	boot  store.BootID
	nodes map[string]string
}

// specimens returns a store that was closed, and one whose process was killed.
func specimens(t *testing.T) map[string]specimen {
	t.Helper()
	all := make(map[string]specimen)
	fs := crashfs.New(nil)
	j := store.OpenOn(fs, 300)
	mustLoad(t, j)
	for i := 0; !j.Compacting(); i++ {
		mustCommit(t, j, put(fmt.Sprint("/", i), "before the snapshot"))
	}
	if err := j.Settle(); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, j, put("/1", "behind it"))
	mustClose(t, j)
	j = store.OpenOn(fs, 600) // big enough: no snapshot is in progress at the end
	mustLoad(t, j)
	for i := range 3 {
		mustCommit(t, j, put(fmt.Sprint("/last", i), "in the last journal"))
	}
	mustCommit(t, j, new(store.Batch))
	if j.Compacting() {
		t.Fatal("a snapshot is in progress")
	}
	killed := fs.Killed(fs.Now())
	mustClose(t, j)
	for name, files := range map[string]map[string][]byte{"closed": fs.Killed(fs.Now()), "killed": killed} {
		names := strings.Join(slices.Sorted(maps.Keys(files)), " ")
		if want := "00000001.snapshot 00000002.journal 00000003.journal committed " + store.Guard; names != want {
			t.Fatalf("files: %s; want %s", names, want)
		}
		j := store.OpenOn(crashfs.New(files), 300)
		s := specimen{files: files, boot: store.BootID{1}, nodes: mustLoad(t, j).nodes}
		mustClose(t, j)
		if len(s.nodes) < 5 {
			t.Fatalf("nodes: %q", s.nodes)
		}
		all[name] = s
	}
	s := all["closed"]
	s.files, s.nodes = store.Older(s.files), maps.Clone(s.nodes)
	for path, record := range s.nodes {
		s.nodes[path] = store.OlderRecord(record)
	}
	all["format 3"] = s
	return all
}

// damages tries every kind of damage of one file, one after the other.
func (s specimen) damages(each func(what string, files map[string][]byte)) {
	crashfs.Damages(s.files, each)
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		data := s.files[name]
		with := func(d []byte) map[string][]byte {
			files := maps.Clone(s.files)
			files[name] = d
			return files
		}
		each(name+": zeros behind it", with(append(slices.Clone(data), make([]byte, 5000)...)))
		each(name+": another file behind it", with(slices.Concat(data, s.files["00000002.journal"])))
		for other := range s.files {
			if other != name {
				each(name+": is a copy of "+other, with(s.files[other]))
			}
		}
	}
}

// A bit flips, or a file loses its end, is missing, or is replaced by another file. Load finds
// everything that was acknowledged, or returns an error that names the file. The same holds after a
// restart of the machine.
func TestEveryDamageIsDetectedOrHarmless(t *testing.T) {
	for name, s := range specimens(t) {
		for _, boot := range []store.BootID{s.boot, nextBoot()} {
			tried, detected := 0, 0
			s.damages(func(what string, files map[string][]byte) {
				tried++
				fs := crashfs.New(files)
				fs.BootID = boot
				j := store.OpenOn(fs, 300)
				c, err := load(j)
				if err := j.Close(); err != nil {
					t.Errorf("%s, %s: close: %v", name, what, err)
				}
				switch {
				case err == nil && !maps.Equal(c.nodes, s.nodes):
					t.Errorf("%s, %s: the damage was not detected: %q; want %q", name, what, c.nodes, s.nodes)
				case err == nil:
				case !errors.Is(err, store.ErrDamaged):
					t.Errorf("%s, %s: %v; want ErrDamaged", name, what, err)
				case !strings.Contains(err.Error(), crashfs.Dir+"/") || !strings.Contains(err.Error(), "restore a backup"):
					t.Errorf("%s, %s: %v; want a file and a remedy", name, what, err)
				default:
					detected++
					if fs.Now() != 0 {
						t.Errorf("%s, %s: %v, but the directory was changed", name, what, err)
					}
				}
				if n := fs.StillOpen(); n > 0 {
					t.Errorf("%s, %s: %d files are still open", name, what, n)
				}
			})
			t.Logf("%s: %d damages, %d detected, %d harmless", name, tried, detected, tried-detected)
		}
	}
}

// Without the witness, which may be old after a power failure, the next batch protects each
// batch. The last one has no such protection.
func TestDamageInTheMiddleIsDetectedWithoutTheWitness(t *testing.T) {
	for name, s := range specimens(t) {
		delete(s.files, store.WitnessFile)
		harmless := 0
		s.damages(func(what string, files map[string][]byte) {
			j := store.OpenOn(crashfs.New(files), 300)
			c, err := load(j)
			j.Close()
			if err == nil && !maps.Equal(c.nodes, s.nodes) && c.nodes["/last1"] == "" && !strings.HasPrefix(what, "00000003.journal: cut off") &&
				!strings.HasPrefix(what, "00000003.journal: missing") {
				t.Errorf("%s, %s: the damage was not detected: %q", name, what, c.nodes)
			}
			if err == nil {
				harmless++
			}
		})
		if harmless == 0 {
			t.Errorf("%s: no harmless damage at all: the test looks in the wrong place", name)
		}
	}
}

// If a journal has lost its end, or is damaged before it, the error says how to continue
// without the lost batches. Doing so works.
func TestALostEndCanBeAccepted(t *testing.T) {
	const journal = "00000003.journal"
	for _, tt := range []struct {
		name   string
		damage func(b []byte) []byte
		says   []string
	}{
		{"cut off", func(b []byte) []byte { return b[:len(b)-70] }, []string{"d/00000003.journal ends at byte ", "remove d/committed"}},
		{"a bit", func(b []byte) []byte { b[store.FileHeader+store.BatchHeader] ^= 1; return b },
			[]string{"d/00000003.journal, byte 128: batch ", "(truncate -s 128)", "remove d/committed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := specimens(t)["closed"]
			s.files[journal] = tt.damage(slices.Clone(s.files[journal]))
			_, err := load(closing(t, crashfs.New(s.files)))
			for _, says := range tt.says {
				if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), says) {
					t.Fatalf("load: %v; want ErrDamaged with %q", err, says)
				}
			}
			delete(s.files, store.WitnessFile)
			if strings.Contains(err.Error(), "truncate") {
				s.files[journal] = s.files[journal][:128]
			}
			c, err := load(closing(t, crashfs.New(s.files)))
			if err != nil || len(c.nodes) >= len(s.nodes) || c.nodes["/1"] != "behind it" {
				t.Errorf("%q, %v: either nothing was lost, or too much", c.nodes, err)
			}
		})
	}
}

// closing returns a store that is closed when the test ends.
func closing(t *testing.T, fs *crashfs.FS) *store.Journal {
	j := store.OpenOn(fs, 300)
	t.Cleanup(func() { j.Close() })
	return j
}

// A torn end is no damage: zeros, a part of a batch, random bytes, or the bytes of another
// file. Missing batches that were due to be synced later are no damage either.
func TestATornEndIsNoDamage(t *testing.T) {
	fs := crashfs.New(nil)
	j := store.OpenOn(fs, 1<<12)
	mustLoad(t, j)
	mustCommit(t, j, put("/a", "a"))
	ends := []int{end(t, fs)}
	for i := range 3 {
		mustCommit(t, j, later(fmt.Sprint("/later", i), strings.Repeat("l", 600)))
		ends = append(ends, end(t, fs))
	}
	files := fs.Killed(fs.Now())
	mustClose(t, j)
	const name = "00000001.journal"
	whole := files[name]
	other := filled(t, 5)[name]
	for _, tt := range []struct {
		what string
		file []byte
		want int // nodes
	}{
		{"whole", whole, 4},
		{"zeros", append(slices.Clone(whole[:ends[0]]), make([]byte, 4000)...), 1},
		{"nothing", whole[:ends[0]], 1},
		{"a part", whole[:ends[1]-5], 1},
		{"nonsense", append(slices.Clone(whole[:ends[1]]), []byte(strings.Repeat("nonsense", 500))...), 2},
		{"another file", append(slices.Clone(whole[:ends[0]]), other[store.FileHeader:]...), 1},
		{"the first is lost", slices.Concat(whole[:ends[0]], make([]byte, ends[1]-ends[0]), whole[ends[1]:]), 1},
		{"the second is torn", slices.Concat(whole[:ends[1]+100], make([]byte, 300), whole[ends[1]+400:]), 2},
	} {
		t.Run(tt.what, func(t *testing.T) {
			image := maps.Clone(files)
			image[name] = tt.file
			for again := range 2 { // the omitted batches do not come back
				fs := crashfs.New(image)
				fs.BootID = nextBoot()
				j := store.OpenOn(fs, 1<<12)
				c := mustLoad(t, j)
				if len(c.nodes) != tt.want+2*again {
					t.Errorf("%d nodes; want %d", len(c.nodes), tt.want+2*again)
				}
				if again == 0 { // as long as the omitted batch
					mustCommit(t, j, later("/later8", strings.Repeat("m", 600)))
					mustCommit(t, j, put("/later9", strings.Repeat("m", 600)))
				}
				image = fs.Killed(fs.Now())
				mustClose(t, j)
			}
		})
	}
}

// end returns the end of the last batch of the first journal, whose bytes are not zero.
func end(t *testing.T, fs *crashfs.FS) int {
	t.Helper()
	b := fs.Killed(fs.Now())["00000001.journal"]
	return len(strings.TrimRight(string(b), "\x00"))
}

// FuzzJournal reads arbitrary bytes as a journal that was not closed. The store refuses it, or
// finds the same contents again.
func FuzzJournal(f *testing.F) {
	const name = "00000001.journal"
	fs := crashfs.New(nil)
	j := store.OpenOn(fs, 1<<9)
	if _, err := load(j); err != nil {
		f.Fatal(err)
	}
	for i := range 3 {
		if err := j.Commit(later(fmt.Sprint("/", i), "record")); err != nil {
			f.Fatal(err)
		}
	}
	sound := fs.Killed(fs.Now())[name]
	if err := j.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(sound, 0, false)
	f.Add(sound[:200], 0, true)
	f.Add([]byte{}, 0, false)
	f.Add(slices.Concat(sound[:140], make([]byte, 90), sound[140:]), 1, true)
	f.Fuzz(func(t *testing.T, data []byte, flip int, mend bool) {
		if len(data) > 0 && flip >= 0 {
			data = slices.Clone(data)
			data[flip%len(data)] ^= byte(flip >> 8)
		}
		if mend { // correct the checksums, to reach the code after them
			data = store.Mend(data)
		}
		fs := crashfs.New(map[string][]byte{name: data})
		var found []contents
		for range 2 {
			j := store.OpenOn(fs, 1<<9)
			c, err := load(j)
			if closed := j.Close(); closed != nil {
				t.Fatal(closed)
			}
			switch {
			case err == nil:
				found = append(found, c)
			case !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrFormat) && !strings.Contains(err.Error(), "twice"):
				t.Fatalf("%v; want ErrDamaged or ErrFormat", err)
			case len(found) > 0:
				t.Fatalf("the first start found %d nodes, the second one: %v", len(found[0].nodes), err)
			default:
				return
			}
		}
		if !maps.Equal(found[0].nodes, found[1].nodes) || !maps.Equal(found[0].sessions, found[1].sessions) {
			t.Errorf("found %v, and then %v", found[0], found[1])
		}
	})
}
