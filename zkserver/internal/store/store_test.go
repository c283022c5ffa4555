package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var silent = slog.New(slog.DiscardHandler)

// contents is what Load found.
type contents struct {
	meta     Meta
	nodes    map[string]string
	sessions map[int64]string
}

func load(s Store, init Meta) (contents, error) {
	c := contents{nodes: make(map[string]string), sessions: make(map[int64]string)}
	var err error
	c.meta, err = s.Load(init, Visitor{
		Node:    func(path string, r []byte) error { c.nodes[path] = string(r); return nil },
		Session: func(id int64, r []byte) error { c.sessions[id] = string(r); return nil },
	})
	return c, err
}

var firstMeta = Meta{Secret: []byte("secret"), Ceiling: 5 << 32}

func mustLoad(t *testing.T, s Store) contents {
	t.Helper()
	c, err := load(s, firstMeta)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustOpen(t *testing.T, dir string) *Pebble {
	t.Helper()
	p, err := OpenPebble(dir, silent)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStoresKeepWhatWasCommitted(t *testing.T) {
	dir, memory := t.TempDir(), NewMemory()
	for name, open := range map[string]func() Store{
		"pebble": func() Store { return mustOpen(t, dir) },
		"memory": func() Store { return memory },
	} {
		t.Run(name, func(t *testing.T) {
			s := open()
			if got := mustLoad(t, s); string(got.meta.Secret) != "secret" || got.meta.Ceiling != 5<<32 || len(got.nodes) != 0 {
				t.Fatalf("fresh store: %+v", got)
			}
			odd := "/" + strings.Repeat("ü\u200b", 1000) // long, and nothing a file name could be
			var b Batch
			b.PutNode("/", []byte("root"))
			b.PutNode(odd, []byte("odd"))
			b.PutNode("/gone", []byte("x"))
			b.PutNode("/empty", nil)
			b.PutSession(7, []byte("seven"))
			b.PutSession(-8, []byte("eight"))
			b.DeleteNode("/never")
			b.PutNode("/", []byte("root again")) // the last one counts
			if err := s.Commit(&b); err != nil {
				t.Fatal(err)
			}
			b = Batch{}
			b.DeleteNode("/gone")
			b.DeleteSession(7)
			b.PutCeiling(6 << 32)
			if err := s.Commit(&b); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}

			s = open()
			defer s.Close()
			got := mustLoad(t, s)
			if string(got.meta.Secret) != "secret" || got.meta.Ceiling != 6<<32 {
				t.Errorf("meta: %+v", got.meta)
			}
			if want := map[string]string{"/": "root again", odd: "odd", "/empty": ""}; !maps.Equal(got.nodes, want) {
				t.Errorf("nodes: %q", got.nodes)
			}
			if want := map[int64]string{-8: "eight"}; !maps.Equal(got.sessions, want) {
				t.Errorf("sessions: %v", got.sessions)
			}
		})
	}
}

func TestOneOwnerAtATime(t *testing.T) {
	dir := t.TempDir()
	p := mustOpen(t, dir)
	// Another spelling of the same directory must not get past the lock.
	for _, name := range []string{dir, filepath.Join(dir, "..", filepath.Base(dir))} {
		if _, err := OpenPebble(name, silent); !errors.Is(err, ErrInUse) {
			t.Errorf("open %s again: %v; want ErrInUse", name, err)
		}
	}
	p.Close()
	mustOpen(t, dir).Close()

	m := NewMemory()
	mustLoad(t, m)
	if _, err := load(m, firstMeta); !errors.Is(err, ErrInUse) {
		t.Errorf("memory, again: %v; want ErrInUse", err)
	}
}

func TestOtherFormatsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		name, key, value, says string
	}{
		{"newer", string(keyFormat), "\x03", "its format is 3, this program knows 2"},
		{"nonsense", string(keyFormat), "yes", "right directory"},
		{"foreign", "somebody's", "data", "another program"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fs := vfs.NewMem()
			db, err := pebble.Open("d", &pebble.Options{FS: fs, Logger: &pebbleLog{logger: silent}})
			if err != nil {
				t.Fatal(err)
			}
			db.Set([]byte(tt.key), []byte(tt.value), pebble.Sync)
			db.Close()
			p, err := OpenPebbleOn(fs, "d", silent)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if _, err := load(p, firstMeta); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("load: %v; want ErrFormat with %q", err, tt.says)
			}
		})
	}
}

func TestFilesAreTheirOwnersAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	parent := t.TempDir()
	dir := filepath.Join(parent, "made", "deep")
	p := mustOpen(t, dir)
	mustLoad(t, p)
	defer p.Close()
	var b Batch
	for i := range 200 { // enough for tables and a second log
		b.PutNode(fmt.Sprint("/", i), bytes.Repeat([]byte{byte(i)}, 50_000))
	}
	if err := p.Commit(&b); err != nil {
		t.Fatal(err)
	}
	if err := p.db.Flush(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	err := filepath.WalkDir(filepath.Join(parent, "made"), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		seen++
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o; want %o", path, got, want)
		}
		return err
	})
	if err != nil || seen < 6 {
		t.Errorf("saw %d files, %v", seen, err)
	}
}

// A crash keeps every synced byte and any part of the rest. Whatever it keeps, each
// commit that had returned is there, and each batch is there as a whole or not at all.
func TestCrashKeepsEveryCommit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		fs := vfs.NewCrashableMem()
		fs.MkdirAll("d", 0o700)
		p, err := OpenPebbleOn(fs, "d", silent)
		if err != nil {
			t.Fatal(err)
		}
		mustLoad(t, p)
		committed := make(chan int, 1000)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 40 {
				var b Batch
				b.PutNode(fmt.Sprint("/a", i), bytes.Repeat([]byte("x"), 5000))
				b.PutNode(fmt.Sprint("/b", i), []byte("y"))
				if err := p.Commit(&b); err != nil {
					t.Error(err)
				}
				committed <- i
			}
		}()
		last := -1
		for range rng.IntN(38) {
			last = <-committed
		}
		crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
		<-done
		p.Close()

		p, err = OpenPebbleOn(crashed, "d", silent)
		if err != nil {
			t.Fatalf("round %d: open after the crash: %v", round, err)
		}
		got := mustLoad(t, p)
		for i := range 40 {
			_, a := got.nodes[fmt.Sprint("/a", i)]
			_, b := got.nodes[fmt.Sprint("/b", i)]
			if i <= last && !a {
				t.Errorf("round %d: commit %d had returned and is lost", round, i)
			}
			if a != b {
				t.Errorf("round %d: half of batch %d is there", round, i)
			}
		}
		p.Close()
	}
}

// What Pebble leaves behind after a fatal error cannot be cleaned up, so this runs in
// a process of its own.
func TestFailedSyncFailsTheCommit(t *testing.T) {
	if os.Getenv("ZKSERVER_STORE_CHILD") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFailedSyncFailsTheCommit$", "-test.v", "-test.timeout=60s")
		cmd.Env = append(os.Environ(), "ZKSERVER_STORE_CHILD=1")
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("child is content")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	broken := errors.New("disk on fire")
	var toggle errorfs.Toggle
	toggle.Injector = errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo {
			return broken
		}
		return nil
	})
	mem := vfs.NewMem()
	mem.MkdirAll("d", 0o700)
	p, err := OpenPebbleOn(errorfs.Wrap(mem, &toggle), "d", silent)
	if err != nil {
		t.Fatal(err)
	}
	mustLoad(t, p)
	toggle.On()
	for range 2 { // and it stays failed
		var b Batch
		b.PutNode("/x", []byte("x"))
		if err := p.Commit(&b); err == nil || !strings.Contains(err.Error(), broken.Error()) {
			t.Fatalf("commit: %v; want %v", err, broken)
		}
		toggle.Off()
	}
	if err := p.Close(); err == nil {
		t.Fatal("close after a fatal error says nothing")
	}
	fmt.Println("child is content")
	os.Exit(0)
}
