package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"holdfast/zkserver/internal/crashfs"
	"holdfast/zkserver/internal/store"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("STORE_OPENED_BY_A_CHILD"); dir != "" {
		_, err := store.OpenJournal(dir)
		fmt.Print(err)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// contents collects everything that Load found.
type contents struct {
	meta     store.Meta
	nodes    map[string]string
	sessions map[int64]string
}

var firstMeta = store.Meta{Secret: []byte("secret"), Ceiling: 5 << 32}

func newContents() *contents {
	return &contents{nodes: make(map[string]string), sessions: make(map[int64]string)}
}

func (c *contents) visitor() store.Visitor {
	return store.Visitor{
		Node: func(path string, part byte, r []byte) error {
			if part != 'n' {
				path = string(part) + path
			}
			if _, twice := c.nodes[path]; twice {
				return fmt.Errorf("%s occurs twice", path)
			}
			c.nodes[path] = string(r)
			return nil
		},
		Session: func(id int64, r []byte) error { c.sessions[id] = string(r); return nil },
	}
}

func load(s store.Store) (contents, error) {
	c := newContents()
	var err error
	c.meta, err = s.Load(firstMeta, c.visitor())
	return *c, err
}

func mustLoad(t *testing.T, s store.Store) contents {
	t.Helper()
	c, err := load(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustOpen(t *testing.T, dir string) *store.Journal {
	t.Helper()
	j, err := store.OpenJournal(dir)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func mustCommit(t *testing.T, s store.Store, b *store.Batch) {
	t.Helper()
	if err := s.Commit(b); err != nil {
		t.Fatal(err)
	}
}

func mustClose(t *testing.T, s store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// put returns a batch with one node.
func put(path, record string) *store.Batch {
	b := new(store.Batch)
	b.SetNode(path, 'n', []byte(record))
	return b
}

// later is put for a batch that is synced with a later one.
func later(path, record string) *store.Batch {
	b := put(path, record)
	b.SyncLater = true
	return b
}

func TestStoresKeepWhatWasCommitted(t *testing.T) {
	dir, memory := t.TempDir(), store.NewMemory()
	for name, open := range map[string]func() store.Store{
		"journal": func() store.Store { return mustOpen(t, dir) },
		"memory":  func() store.Store { return memory },
	} {
		t.Run(name, func(t *testing.T) {
			s := open()
			if got := mustLoad(t, s); string(got.meta.Secret) != "secret" || got.meta.Ceiling != 5<<32 || len(got.nodes) != 0 {
				t.Fatalf("fresh store: %+v", got)
			}
			odd := "/" + strings.Repeat("ü\u200b", 1000) // long, and impossible as a file name
			var b store.Batch
			b.SetNode("/", 'n', []byte("root"))
			b.SetNode(odd, 'n', []byte("odd"))
			b.SetNode("/gone", 'n', []byte("x"))
			b.SetNode("/empty", 'n', []byte{})
			b.PutSession(7, []byte("seven"))
			b.PutSession(-8, []byte("eight"))
			b.SetNode("/never", 'n', nil)
			b.SetNode("/", 'n', []byte("root again")) // the last one wins
			mustCommit(t, s, &b)
			b = store.Batch{}
			b.SetNode("/gone", 'n', nil)
			b.DeleteSession(7)
			b.PutCeiling(6 << 32)
			mustCommit(t, s, &b)
			mustCommit(t, s, new(store.Batch))
			mustClose(t, s)
			for range 2 {
				s = open()
				got := mustLoad(t, s)
				mustClose(t, s)
				if string(got.meta.Secret) != "secret" || got.meta.Ceiling != 6<<32 || got.meta.Restarted {
					t.Errorf("meta: %+v", got.meta)
				}
				if want := map[string]string{"/": "root again", odd: "odd", "/empty": ""}; !maps.Equal(got.nodes, want) {
					t.Errorf("nodes: %q", got.nodes)
				}
				if want := map[int64]string{-8: "eight"}; !maps.Equal(got.sessions, want) {
					t.Errorf("sessions: %v", got.sessions)
				}
			}
		})
	}
}

func TestOneOwnerAtATime(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	names := []string{dir, filepath.Join(dir, "..", filepath.Base(dir))}
	if err := os.Symlink(dir, link); err == nil { // Windows may not permit it
		names = append(names, link)
	}
	j := mustOpen(t, dir)
	for _, name := range names {
		if _, err := store.OpenJournal(name); !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), "store") {
			t.Errorf("open %s again: %v; want ErrInUse and the directory", name, err)
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "STORE_OPENED_BY_A_CHILD="+name)
		if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), store.ErrInUse.Error()) {
			t.Errorf("another process opens %s: %s, %v; want ErrInUse", name, out, err)
		}
	}
	mustClose(t, j)
	mustClose(t, mustOpen(t, dir))

	m := store.NewMemory()
	mustLoad(t, m)
	if _, err := load(m); !errors.Is(err, store.ErrInUse) {
		t.Errorf("memory, again: %v; want ErrInUse", err)
	}
}

func TestFilesAreTheirOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	parent := t.TempDir()
	j := mustOpen(t, filepath.Join(parent, "made", "deep"))
	mustLoad(t, j)
	for range 2 { // the second commit finds a journal long enough for a snapshot
		var b store.Batch
		for i := range 100 {
			b.SetNode(fmt.Sprint("/", i), 'n', bytes.Repeat([]byte{byte(i)}, 50_000))
		}
		mustCommit(t, j, &b)
	}
	if err := j.Settle(); err != nil {
		t.Fatal(err)
	}
	var seen []string
	err := filepath.WalkDir(filepath.Join(parent, "made"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		seen = append(seen, d.Name())
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o; want %o", path, got, want)
		}
		return err
	})
	want := "made deep store 00000001.snapshot 00000002.journal LOCK committed " + store.Guard
	if got := strings.Join(seen, " "); got != want || err != nil {
		t.Errorf("files: %s, %v; want %s", got, err, want)
	}
	mustClose(t, j)
}

func TestOtherFormatsAreRefused(t *testing.T) {
	sound := filled(t, 3)
	newer := maps.Clone(sound)
	newer["00000001.journal"] = store.WithFormat(sound["00000001.journal"], store.Format+1)
	foreign := crashfs.New(nil)
	j := store.OpenOn(foreign, 1<<10)
	mustLoad(t, j)
	mustCommit(t, j, store.Unknown())
	mustClose(t, j)
	for _, tt := range []struct {
		name  string
		files map[string][]byte
		says  string
	}{
		{"newer", newer, "00000001.journal: not a store that this version can read: its format is 5, this program reads 3 and 4; use the version"},
		{"unknown key", foreign.Killed(foreign.Now()), `key "?" is unknown`},
		{"Pebble", map[string][]byte{"LOCK": nil, "MANIFEST-000001": {1}, "marker.manifest.000001.MANIFEST-000001": nil},
			"MANIFEST-000001 is from an older holdfast (format 1 or 2, this program reads 3 and 4); move d away to begin with an empty store, or serve it"},
		{"Pebble without its manifest", map[string][]byte{"000004.sst": {1}, "OPTIONS-000003": {1}}, "format 1 or 2"},
		{"Pebble with its markers alone", map[string][]byte{"marker.format-version.000001.013": nil}, "format 1 or 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fs := crashfs.New(tt.files)
			j := store.OpenOn(fs, 1<<10)
			if _, err := load(j); !errors.Is(err, store.ErrFormat) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("load: %v; want ErrFormat with %q", err, tt.says)
			}
			if err := j.Commit(put("/x", "x")); !errors.Is(err, store.ErrFormat) {
				t.Errorf("commit after a refused load: %v; want the same error", err)
			}
			mustClose(t, j)
			if fs.Now() != 0 {
				t.Errorf("%d changes were made to a refused directory", fs.Now())
			}
		})
	}
}

// filled returns the files of a closed store with n nodes.
func filled(t *testing.T, n int) map[string][]byte {
	t.Helper()
	fs := crashfs.New(nil)
	j := store.OpenOn(fs, 1<<10)
	mustLoad(t, j)
	for i := range n {
		mustCommit(t, j, put(fmt.Sprint("/", i), "record"))
	}
	mustClose(t, j)
	return fs.Killed(fs.Now())
}

// Starts that change little must not each leave a file.
func TestStartsDoNotPileUpFiles(t *testing.T) {
	fs := crashfs.New(nil)
	for i := range 50 {
		j := store.OpenOn(fs, 1<<10)
		if c := mustLoad(t, j); len(c.nodes) != i {
			t.Fatalf("start %d: %d nodes", i, len(c.nodes))
		}
		mustCommit(t, j, put(fmt.Sprint("/", i), "x"))
		if err := j.Settle(); err != nil {
			t.Fatal(err)
		}
		mustClose(t, j)
		mustClose(t, idle(t, fs)) // a start without a commit
		if names, _ := fs.List(); len(names) > store.MaxSegments+4 {
			t.Fatalf("start %d: %q", i, names)
		}
	}
	if n := fs.StillOpen(); n != 0 {
		t.Errorf("%d files are still open", n)
	}
}

func idle(t *testing.T, fs store.FS) *store.Journal {
	j := store.OpenOn(fs, 1<<10)
	mustLoad(t, j)
	return j
}

// Commits continue while a snapshot is written, and their changes are there afterwards.
func TestCommitsGoOnWhileASnapshotIsWritten(t *testing.T) {
	fs := crashfs.New(nil)
	begun, proceed := make(chan struct{}), make(chan struct{})
	first := true
	fs.Fail = func(c crashfs.Call) (int, error) {
		if c.Op == "write" && c.Name == "00000001.snapshot.tmp" && first {
			first = false
			close(begun)
			<-proceed
		}
		return 0, nil
	}
	j := store.OpenOn(fs, 1<<10)
	mustLoad(t, j)
	want := make(map[string]string)
	commit := func(path, record string) {
		want[path] = record
		mustCommit(t, j, put(path, record))
	}
	for i := 0; !j.Compacting(); i++ {
		commit(fmt.Sprint("/", i), strings.Repeat("a", 100))
	}
	<-begun
	for i := range 200 {
		commit(fmt.Sprint("/", i), strings.Repeat("b", 50))
	}
	var b store.Batch
	b.SetNode("/3", 'n', nil)
	delete(want, "/3")
	mustCommit(t, j, &b)
	close(proceed)
	if err := j.Settle(); err != nil {
		t.Fatal(err)
	}
	commit("/last", "x")
	mustClose(t, j)
	names, _ := fs.List()
	if got := strings.Join(names, " "); !strings.HasPrefix(got, "00000001.snapshot 00000002.journal") && !strings.HasPrefix(got, "00000002.snapshot") {
		t.Errorf("files: %s", got)
	}
	j = store.OpenOn(fs, 1<<10)
	if got := mustLoad(t, j); !maps.Equal(got.nodes, want) {
		t.Errorf("%d nodes; want %d", len(got.nodes), len(want))
	}
	mustClose(t, j)
}

// A store can be closed while a snapshot is in progress, and leaves nothing of it behind.
func TestCloseStopsASnapshot(t *testing.T) {
	fs := crashfs.New(nil)
	begun, proceed := make(chan struct{}), make(chan struct{})
	fs.Fail = func(c crashfs.Call) (int, error) {
		if c.Op == "create" && strings.HasPrefix(c.Name, "00000001.snapshot") {
			close(begun)
			<-proceed
		}
		return 0, nil
	}
	j := store.OpenOn(fs, 1<<10)
	mustLoad(t, j)
	n := 0
	for ; !j.Compacting(); n++ {
		mustCommit(t, j, put(fmt.Sprint("/", n), strings.Repeat("a", 100)))
	}
	<-begun
	closed := make(chan error)
	go func() { closed <- j.Close() }()
	<-j.Stopping()
	close(proceed)
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	names, _ := fs.List()
	if got := strings.Join(names, " "); !strings.HasPrefix(got, "00000001.journal 00000002.journal "+store.WitnessFile) {
		t.Errorf("files: %s", got)
	}
	fs.Fail = nil
	j = store.OpenOn(fs, 1<<10)
	if got := mustLoad(t, j); len(got.nodes) != n {
		t.Errorf("%d nodes; want %d", len(got.nodes), n)
	}
	mustClose(t, j)
}

// Close waits for a few reads of a snapshot in progress, not until all files are read.
func TestCloseStopsTheReadingForASnapshot(t *testing.T) {
	for _, tt := range []struct {
		name string
		file string // Close begins when the snapshot opens this file for the nth time
		nth  int
	}{
		{"which changes there are", "00000002.journal", 1},
		{"the former snapshot", "00000001.snapshot", 1},
		{"the changes", "00000002.journal", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fs := crashfs.New(nil)
			j := store.OpenOn(fs, 1<<21)
			mustLoad(t, j)
			fill := func() { // the same keys each time, so that a snapshot replaces all earlier values
				for i := 0; !j.Compacting(); i++ {
					mustCommit(t, j, put(fmt.Sprint("/", i%5), strings.Repeat("a", 200_000)))
				}
			}
			fill()
			if err := j.Settle(); err != nil {
				t.Fatal(err)
			}
			begun, proceed := make(chan struct{}), make(chan struct{})
			opened, reads := 0, 0
			fs.Fail = func(c crashfs.Call) (int, error) {
				switch {
				case c.Op == "open" && c.Name == tt.file:
					if opened++; opened == tt.nth {
						close(begun)
						<-proceed
					}
				case c.Op == "read" && opened >= tt.nth:
					reads++
				}
				return 0, nil
			}
			fill()
			<-begun
			closed := make(chan error)
			go func() { closed <- j.Close() }()
			<-j.Stopping()
			close(proceed)
			if err := <-closed; err != nil {
				t.Fatal(err)
			}
			if reads > 3 { // of the header and of a batch
				t.Errorf("%d reads after Close", reads)
			}
		})
	}
}

// syncs counts the syncs of journals.
func syncs(fs *crashfs.FS) *int {
	n := new(int)
	fs.Fail = func(c crashfs.Call) (int, error) {
		if c.Op == "sync" && strings.HasSuffix(c.Name, ".journal") {
			*n++
		}
		return 0, nil
	}
	return n
}

func TestBatchesThatAreSyncedLaterAreSyncedWithTheNext(t *testing.T) {
	for _, tt := range []struct {
		name    string
		boot    store.BootID
		batches []*store.Batch
		syncs   int
		synced  uint64
	}{
		{"all at once", store.BootID{1}, []*store.Batch{put("/a", ""), put("/b", "")}, 2, 3},
		{"later", store.BootID{1}, []*store.Batch{later("/a", ""), later("/b", "")}, 0, 1},
		{"with the next", store.BootID{1}, []*store.Batch{later("/a", ""), later("/b", ""), put("/c", "")}, 1, 4},
		{"no boot id", store.BootID{}, []*store.Batch{later("/a", ""), later("/b", "")}, 2, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fs := crashfs.New(nil)
			fs.BootID = tt.boot
			j := store.OpenOn(fs, 1<<16)
			mustLoad(t, j)
			count := syncs(fs)
			for _, b := range tt.batches {
				mustCommit(t, j, b)
			}
			if synced, last := j.Synced(); *count != tt.syncs || synced != tt.synced || last != uint64(1+len(tt.batches)) {
				t.Errorf("%d syncs, batch %d of %d is durable; want %d and %d", *count, synced, last, tt.syncs, tt.synced)
			}
			mustClose(t, j)
			if synced, last := j.Synced(); synced != last {
				t.Errorf("closed with batch %d of %d durable", synced, last)
			}
		})
	}
}

// Load reports a restart of the machine until a batch is committed. Starts without a
// commit do not change that.
func TestARestartOfTheMachineIsSaid(t *testing.T) {
	const none = ""
	for _, tt := range []struct {
		name  string
		steps []string // boot id, and the node to commit
		want  []bool
	}{
		{"fresh", []string{"1"}, []bool{false}},
		{"the same", []string{"1/a", "1/b", "1"}, []bool{false, false, false}},
		{"another", []string{"1/a", "2/b", "2"}, []bool{false, true, false}},
		{"until a commit", []string{"1/a", "2", "2", "2/b", "2"}, []bool{false, true, true, true, false}},
		{"two restarts", []string{"1/a", "2", "3", "1"}, []bool{false, true, true, false}},
		{"no boot id any more", []string{"1/a", "0", "0/b", "0"}, []bool{false, true, true, false}},
		{"never a boot id", []string{"0/a", "0", "1/b", "1"}, []bool{false, false, false, false}},
		{"a snapshot between", []string{"1/a", "1/*", "2", "2", "2/b", "2"}, []bool{false, false, true, true, true, false}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fs := crashfs.New(nil)
			for i, step := range tt.steps {
				fs.BootID = store.BootID{step[0] - '0'}
				j := store.OpenOn(fs, 1<<10)
				if got := mustLoad(t, j).meta.Restarted; got != tt.want[i] {
					t.Errorf("step %d: restarted: %v; want %v", i, got, tt.want[i])
				}
				switch node := step[1:]; {
				case node == "/*":
					for n := 0; !j.Compacting(); n++ {
						mustCommit(t, j, later("/s", strings.Repeat("s", 200)))
					}
					if err := j.Settle(); err != nil {
						t.Fatal(err)
					}
				case node != none:
					mustCommit(t, j, later(node, ""))
				}
				mustClose(t, j)
			}
		})
	}
}

// A batch with an invalid length costs no memory.
func TestLengthsAreCheckedBeforeRoomIsMade(t *testing.T) {
	files := filled(t, 3)
	journal := files["00000001.journal"]
	for i := range 4 {
		journal[store.FileHeader+8+i] = 0xff
	}
	delete(files, store.WitnessFile)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	j := store.OpenOn(crashfs.New(files), 1<<10)
	_, err := load(j)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, store.ErrDamaged) || got > 4<<20 {
		t.Errorf("load: %v, %d bytes; want ErrDamaged and little", err, got)
	}
	mustClose(t, j)
}

func TestTooLargeABatchIsRefused(t *testing.T) {
	j := store.OpenOn(crashfs.New(nil), 1<<10)
	mustLoad(t, j)
	if err := j.Commit(store.TooLarge()); err == nil || !strings.Contains(err.Error(), "the limit is 67108864") {
		t.Errorf("commit: %v; want the limit", err)
	}
	mustClose(t, j)
}
