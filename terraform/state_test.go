package terraform_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/terraform"
)

// incompressible returns a state of about n bytes that gzip cannot shorten by much.
func incompressible(serial, n int) []byte {
	const digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	r := rand.New(rand.NewPCG(uint64(serial), 1))
	text := make([]byte, n)
	for i := range text {
		text[i] = digits[r.IntN(64)]
	}
	return state(serial, string(text))
}

func stores(t *testing.T) map[string]func(*terraform.Config) {
	dir := t.TempDir()
	return map[string]func(*terraform.Config){
		"nodes": func(*terraform.Config) {},
		"files": func(c *terraform.Config) { c.StateDir = dir },
	}
}

// Must-show: a state of 20 MB.
func TestLargeState(t *testing.T) {
	for name, edit := range stores(t) {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, edit)
			c := b.client("a1")
			want(t, "LOCK", c.lock(), 200)
			large := incompressible(1, 20<<20)
			want(t, "POST", c.post(large), 200)
			if got := want(t, "GET", c.get(), 200); !bytes.Equal(got.body, large) {
				t.Errorf("GET returns %d other bytes", len(got.body))
			}
			want(t, "POST of a small one", c.post(state(2, "two")), 200)
			if old, _, err := b.Read(t.Context(), b.ws(), 1); err != nil || !bytes.Equal(old, large) {
				t.Errorf("the old version has %d bytes, %v", len(old), err)
			}
		})
	}
}

func TestVersionsAreKeptAndBounded(t *testing.T) {
	for name, edit := range stores(t) {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t, edit, func(c *terraform.Config) { c.Versions = 3 })
			c := b.client("a1")
			want(t, "LOCK", c.lock(), 200)
			for i := 1; i <= 5; i++ {
				want(t, "POST", c.post(state(i, "x")), 200)
			}
			versions, err := b.History(t.Context(), b.ws())
			if err != nil || len(versions) != 3 || versions[0].Number != 3 || !versions[2].Current || versions[1].Current || versions[2].Who != "alice@a1" || versions[2].LockID != "a1" {
				t.Errorf("%+v, %v", versions, err)
			}
			if _, _, err := b.Read(t.Context(), b.ws(), 1); !errors.Is(err, terraform.ErrNoVersion) {
				t.Errorf("version 1: %v", err)
			}
			if n := b.stored(t); n != 3 {
				t.Errorf("%d versions have bytes; want 3", n)
			}
			if _, err := b.Restore(t.Context(), b.ws(), 3, "carol"); !errors.Is(err, terraform.ErrLocked) {
				t.Errorf("Restore while the lock is held: %v", err)
			}
			want(t, "UNLOCK", c.unlock(), 200)
			v, err := b.Restore(t.Context(), b.ws(), 3, "carol")
			if err != nil || v.Serial != 6 || v.From != 3 || v.Who != "carol" {
				t.Errorf("%+v, %v", v, err)
			}
			if got := c.get(); string(got.body) != string(state(6, "x")) {
				t.Errorf("after Restore: %s", got.body)
			}
			want(t, "LOCK", b.client("b1").lock(), 200)
		})
	}
}

// stored counts the versions whose bytes exist.
func (b *backend) stored(t *testing.T) int {
	if b.dir != "" {
		files, err := filepath.Glob(filepath.Join(b.dir, "app", "default", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	names, _, err := b.zk.Client().Children(t.Context(), "/tf/app/default/versions")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

// --state-dir can be a directory with other files, and that of another store.
func TestStateDirKeepsFilesOfOthers(t *testing.T) {
	defer terraform.SetLeftoverAge(-time.Hour)() // everything counts as old
	dir := t.TempDir()
	b := newBackend(t, func(c *terraform.Config) { c.StateDir = dir })
	b.client("run1").run(1)
	others := []string{"variables.tf", "versions.tf", "v" + strings.Repeat("a", 26), "v" + strings.Repeat("a", 26) + ".tmp.old"}
	for _, name := range append(others, "v"+strings.Repeat("b", 26)+".tmp") {
		if err := os.WriteFile(filepath.Join(dir, "app", "default", name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b.client("run2").run(2)
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(dir, "app", "default", name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "app", "default", "v"+strings.Repeat("b", 26)+".tmp")); err == nil {
		t.Error("an interrupted upload is left")
	}
}

func TestStateDirKeepsNamesInside(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "states")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(inside, "out")); err != nil {
		t.Fatal(err)
	}
	b := newBackend(t, func(c *terraform.Config) { c.StateDir = inside })
	c := b.client("a1")
	c.base = b.http.URL + "/tf/out/default"
	want(t, "LOCK", c.lock(), 200)
	want(t, "POST through a link", c.post(state(1, "secret")), 503)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v: a state has left its directory", entries, err)
	}
	c = b.client("a2")
	want(t, "LOCK", c.lock(), 200)
	want(t, "POST", c.post(state(1, "secret")), 200)
	files, err := filepath.Glob(filepath.Join(inside, "app", "default", "*"))
	if err != nil || len(files) != 1 || strings.HasSuffix(files[0], ".tmp") {
		t.Fatalf("%v, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
