package main

import (
	"context"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var (
	longTests  = flag.Bool("release", false, "make a release of the commit, and try it: minutes, as root, with Debian's tools")
	allTargets = flag.Bool("all", false, "with -release: for all systems, not only this one")
)

func TestArgumentsThatAreRefused(t *testing.T) {
	clean := repository(t)
	changed := repository(t)
	if err := os.WriteFile(filepath.Join(changed, "new"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	tagged := repository(t)
	if _, err := output(exec.Command("git", "-C", tagged, "tag", "v0.2.0")); err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "old.deb"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		r    release
		want string
	}{
		"no version":          {release{root: clean}, "is no version"},
		"no v":                {release{root: clean, version: "0.1.0"}, "is no version"},
		"a zero in front":     {release{root: clean, version: "v0.01.0"}, "is no version"},
		"a shell":             {release{root: clean, version: "v0.1.0-$(id)"}, "is no version"},
		"unknown file":        {release{root: clean, one: "msi"}, "give deb, rpm or image"},
		"unknown system":      {release{root: clean, version: "v0.1.0", only: "plan9/amd64"}, "give one of [linux/amd64"},
		"files of before":     {release{root: clean, version: "v0.1.0", out: full}, "is not empty"},
		"changes":             {release{root: changed, version: "v0.1.0"}, "?? new"},
		"another tag":         {release{root: tagged, version: "v0.1.0"}, "it has v0.2.0"},
		"no repository":       {release{root: t.TempDir(), version: "v0.1.0"}, "not a git repository"},
		"no list of licences": {release{root: clean, version: "v0.1.0"}, "licenses.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.r.out == "" {
				tt.r.out = t.TempDir()
			}
			if err := tt.r.make(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v; want %q", err, tt.want)
			}
		})
	}
}

// repository returns a repository with one commit.
func repository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q"},
		{"-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-q", "--allow-empty", "-m", "first"},
	} {
		if out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

func TestVersionsOfDebianSortAsReleases(t *testing.T) {
	for release, want := range map[string]string{"v0.1.0": "0.1.0", "v1.0.0-rc.1": "1.0.0~rc.1", "v1.0.0-a-b": "1.0.0~a-b"} {
		if got := debVersion(release); got != want {
			t.Errorf("%s: %s; want %s", release, got, want)
		}
	}
}

// made is the release that the tests look at: the files, and a clone that they were made from.
type madeRelease struct {
	release
	clone string
	err   error
}

var theRelease = sync.OnceValue(func() *madeRelease {
	m := &madeRelease{}
	dir, err := os.MkdirTemp("", "holdfast-release-")
	if err != nil {
		return &madeRelease{err: err}
	}
	m.clone = filepath.Join(dir, "clone")
	m.release = release{
		root: m.clone, out: filepath.Join(dir, "dist"), version: "v0.1.0",
		url: "https://example.org/holdfast/v0.1.0", maintainer: "holdfast <holdfast@localhost>",
	}
	if !*allTargets {
		m.only = host.String()
	}
	if m.err = cloneHere(m.clone, "HEAD"); m.err == nil {
		m.err = m.make(context.Background())
	}
	return m
})

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *longTests {
		os.RemoveAll(filepath.Dir(theRelease().clone))
	}
	os.Exit(code)
}

// getRelease makes the release at its first use. Without -release the test is skipped.
func getRelease(t *testing.T) *madeRelease {
	t.Helper()
	if !*longTests {
		t.Skip("needs -release")
	}
	m := theRelease()
	if m.err != nil {
		t.Fatal(m.err)
	}
	return m
}

// cloneHere clones this repository.
func cloneHere(dir, commit string) error {
	if _, err := output(exec.Command("git", "clone", "-q", "--no-checkout", "..", dir)); err != nil {
		return err
	}
	_, err := output(exec.Command("git", "-C", dir, "checkout", "-q", "--detach", commit))
	return err
}

// Nothing of the directory, the time, the user, the environment and the cache is in the files.
func TestReleaseIsTheSameBytes(t *testing.T) {
	first := getRelease(t)
	dir := filepath.Join(t.TempDir(), "a longer path", "clone")
	if err := cloneHere(dir, "HEAD"); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"GOCACHE": t.TempDir(), "TZ": "Pacific/Kiritimati", "HOME": t.TempDir(), "USER": "somebody", "LANG": "de_DE.UTF-8",
		"GOPATH": os.Getenv("GOPATH"), "GOMODCACHE": moduleCache(t), "GOFLAGS": "-p=2", "SOURCE_DATE_EPOCH": "1",
	} {
		t.Setenv(name, value)
	}
	second := first.release
	second.root, second.out = dir, filepath.Join(t.TempDir(), "dist")
	if err := second.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	one, two := sumsOf(t, first.out), sumsOf(t, second.out)
	for name, sum := range one {
		if two[name] != sum {
			t.Errorf("%s: %s and %s", name, sum, two[name])
		}
	}
	if len(one) != len(two) || len(one) < 7 {
		t.Errorf("%d files and %d", len(one), len(two))
	}
	check := exec.Command("sha256sum", "--check", "--quiet", "SHA256SUMS")
	check.Dir = first.out
	if _, err := output(check); err != nil {
		t.Error(err)
	}
}

func moduleCache(t *testing.T) string {
	t.Helper()
	dir, err := output(exec.Command("go", "env", "GOMODCACHE"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(dir)
}

func sumsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		all[d.Name()], err = sumOf(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// need returns the path of a program, or skips the test. In CI it fails.
func need(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		for _, dir := range []string{"/usr/sbin", "/sbin"} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				return filepath.Join(dir, name)
			}
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("install %s", name)
		}
		t.Skipf("needs %s", name)
	}
	return path
}

// one returns the file of the release that a pattern names.
func (m *madeRelease) one(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(m.out, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v; want one file", pattern, found, err)
	}
	return found[0]
}

// remarks runs a checker, and returns its lines without those that contain an expected remark. Each expected remark
// must be there, or the list is out of date.
func remarks(t *testing.T, cmd *exec.Cmd, expected map[string]string) {
	t.Helper()
	out, _ := cmd.CombinedOutput() // some checkers fail if they have remarks
	seen := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		known := line == ""
		for part := range expected {
			if strings.Contains(line, part) {
				seen[part], known = true, true
			}
		}
		if !known {
			t.Errorf("%s: %s", filepath.Base(cmd.Path), line)
		}
	}
	for part, reason := range expected {
		if !seen[part] {
			t.Errorf("%s no longer says %q (%s): remove it from the list", filepath.Base(cmd.Path), part, reason)
		}
	}
}

// One file for this machine needs no commit without changes, and no commit at all.
func TestOneFileOfTheSourcesAsTheyAre(t *testing.T) {
	if !*longTests {
		t.Skip("needs -release")
	}
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("..")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(root, ".git")); err != nil {
		t.Fatal(err)
	}
	r := release{root: root, one: "deb", out: t.TempDir(), maintainer: "holdfast <holdfast@localhost>"}
	if err := r.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	name := r.file("holdfast_0.0.0~dev_%s.deb", host.arch)
	out, err := output(exec.Command("dpkg-deb", "--contents", name))
	if err != nil || !strings.Contains(out, "./usr/bin/holdfast") {
		t.Errorf("%v:\n%s", err, out)
	}
}
