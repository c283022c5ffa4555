package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A release is what make makes.
type release struct {
	root       string // of the repository
	out        string // directory of the files
	version    string // v0.1.0
	url        string
	maintainer string
	only       string // a target; "": all
	one        string // the only file to make: "deb", "rpm" or "image"; "": a whole release

	commit   string
	date     time.Time // of the commit
	licenses map[string]string
	programs []string // their names
	work     string   // directory of what the files are made from; removed at the end
}

// A target is a system that a program is compiled for.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// targets are the systems of a release.
var targets = []target{
	{"linux", "amd64"}, {"linux", "arm64"},
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"freebsd", "amd64"}, {"freebsd", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

// version is a semantic version with the v of Go's modules.
var version = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z]+(\.[0-9A-Za-z]+)*)?$`)

// number returns the version without the v, as packages have it.
func (r *release) number() string { return r.version[1:] }

// make makes all files of the release, or the one that is asked for. If it fails, the directory can have some of
// them.
func (r *release) make(ctx context.Context) (err error) {
	if r.one != "" {
		if err := r.local(); err != nil {
			return err
		}
	}
	made, err := r.prepare(ctx)
	if err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "holdfast-packaging-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	if err := r.build(ctx, made); err != nil {
		return err
	}
	say("manual pages and completions")
	if err := r.texts(ctx); err != nil {
		return err
	}
	if r.one != "" {
		return r.single(made)
	}
	say("source, archives, packages and images")
	if err := r.source(ctx); err != nil {
		return err
	}
	for _, step := range []func(target) error{r.archive, r.bill, r.deb, r.rpm} {
		for _, t := range made {
			if err := step(t); err != nil {
				return fmt.Errorf("%s: %w", t, err)
			}
		}
	}
	if err := r.image(made); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := r.formula(made); err != nil {
		return err
	}
	return r.sums()
}

// local sets what a single file for this machine has, where a release asks for it.
func (r *release) local() error {
	if !slices.Contains([]string{"deb", "rpm", "image"}, r.one) {
		return fmt.Errorf("-one %q is no file: give deb, rpm or image", r.one)
	}
	r.version = cmp.Or(r.version, "v0.0.0-dev")
	r.only = cmp.Or(r.only, target{"linux", runtime.GOARCH}.String())
	return nil
}

// single makes the only file that is asked for.
func (r *release) single(made []target) error {
	say(r.one)
	switch r.one {
	case "deb":
		return r.deb(made[0])
	case "rpm":
		return r.rpm(made[0])
	default:
		return r.image(made)
	}
}

// say prints what is done now.
func say(what string) { fmt.Fprintf(os.Stderr, "packaging: %s\n", what) }

// prepare checks the arguments, and reads what the repository says. It returns the targets.
func (r *release) prepare(ctx context.Context) ([]target, error) {
	if !version.MatchString(r.version) {
		return nil, fmt.Errorf("-version %q is no version: give one such as v0.1.0 or v0.2.0-rc.1", r.version)
	}
	made := targets
	if r.only != "" {
		made = slices.DeleteFunc(slices.Clone(targets), func(t target) bool { return t.String() != r.only })
		if len(made) == 0 {
			return nil, fmt.Errorf("-only %q is no system of a release: give one of %v", r.only, targets)
		}
	}
	entries, err := os.ReadDir(r.out)
	if err == nil && len(entries) > 0 && r.one == "" {
		return nil, fmt.Errorf("%s is not empty: remove it, or give another directory with -out", r.out)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return nil, err
	}
	if err := r.readCommit(ctx); err != nil {
		return nil, err
	}
	if r.licenses, err = readLicenses(filepath.Join(r.root, "cmd", "holdfast", "licenses.txt")); err != nil {
		return nil, err
	}
	r.programs, err = commands(filepath.Join(r.root, "cmd"))
	return made, err
}

// readCommit reads which commit the release is of. A single file needs none: then the sources are those of the
// directory, which may have been unpacked.
func (r *release) readCommit(ctx context.Context) error {
	shown, err := r.git(ctx, "show", "--no-patch", "--format=%H %ct", "HEAD")
	if err != nil && r.one != "" {
		r.commit, r.date = "unknown", time.Now().UTC()
		return nil
	} else if err != nil {
		return err
	}
	commit, seconds, _ := strings.Cut(shown, " ")
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("git show: %w", err)
	}
	r.commit, r.date = commit, time.Unix(at, 0).UTC()
	if r.one != "" {
		return nil
	}
	changed, err := r.git(ctx, "status", "--porcelain")
	if err != nil {
		return err
	}
	if changed != "" {
		return fmt.Errorf("the repository has changes that are in no commit, so nobody could make the same release: commit or stash them:\n%s", changed)
	}
	tags, err := r.git(ctx, "tag", "--points-at", "HEAD", "--list", "v*")
	if err != nil {
		return err
	}
	if tags != "" && !slices.Contains(strings.Fields(tags), r.version) {
		return fmt.Errorf("-version %s is not the tag of this commit: it has %s", r.version, strings.Join(strings.Fields(tags), ", "))
	}
	return nil
}

func (r *release) git(ctx context.Context, args ...string) (string, error) {
	out, err := output(exec.CommandContext(ctx, "git", append([]string{"-C", r.root}, args...)...))
	return strings.TrimSpace(out), err
}

// output runs a command and returns what it prints. If it fails, the error has what it says.
func output(cmd *exec.Cmd) (string, error) {
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, said.String())
	}
	return string(out), nil
}

// readLicenses reads the list at the beginning of licenses.txt: the SPDX identifiers of the licences of each module.
func readLicenses(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := make(map[string]string)
	list, _, _ := strings.Cut(string(text), "\n"+strings.Repeat("=", 80)+"\n")
	for line := range strings.Lines(list) {
		if module, ids, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			all[module] = strings.TrimSpace(ids)
		}
	}
	if all["holdfast"] == "" || all["Go"] == "" {
		return nil, fmt.Errorf("%s has no list of licences at its beginning", path)
	}
	return all, nil
}

// build compiles the programs.
func (r *release) build(ctx context.Context, made []target) error {
	flags := fmt.Sprintf("-s -w -X holdfast/internal/cli/version.release=%s -X holdfast/internal/cli/version.commit=%s -X holdfast/internal/cli/version.date=%s", r.version, r.commit, r.date.Format(time.RFC3339))
	all := r.withHost(made)
	for i, t := range all {
		say(fmt.Sprintf("programs for %s (%d of %d)", t, i+1, len(all)))
		// The build information has no paths with -trimpath, and nothing of the repository with -buildvcs=false: it
		// would differ between a clone and an unpacked archive.
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags="+flags, "-o", filepath.Dir(r.program(t, "holdfast"))+string(filepath.Separator), "./cmd/...")
		build.Dir = r.root
		build.Env = append(os.Environ(), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0", "GOFLAGS=-mod=readonly",
			"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GODEBUG=", "GOWORK=off")
		if _, err := output(build); err != nil {
			return err
		}
	}
	return nil
}

// host is the system that this program runs on. Its programs write the manual pages.
var host = target{runtime.GOOS, runtime.GOARCH}

func (r *release) withHost(made []target) []target {
	if slices.Contains(made, host) {
		return made
	}
	return append(slices.Clone(made), host)
}

// commands returns the names of the programs, holdfast first. Each has a directory below cmd.
func commands(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir) // sorted
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// program returns the path of a compiled program.
func (r *release) program(t target, name string) string {
	if t.os == "windows" {
		name += ".exe"
	}
	path, err := filepath.Abs(filepath.Join(r.work, t.os+"_"+t.arch, name))
	if err != nil {
		panic(err) // the working directory is gone
	}
	return path
}

// texts writes the manual pages and the completions.
func (r *release) texts(ctx context.Context) error {
	run := func(name string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, r.program(host, name), args...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
		return output(cmd)
	}
	for _, name := range r.programs { // the page of holdfast-NAME takes the place of the one that holdfast has for its command
		if _, err := run(name, "man", filepath.Join(r.work, "man")); err != nil {
			return err
		}
	}
	for shell, name := range completions {
		text, err := run("holdfast", "completion", shell)
		if err == nil {
			err = write(filepath.Join(r.work, "completions", name), []byte(text))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// completions are the file names of the completions, by shell.
var completions = map[string]string{"bash": "holdfast.bash", "zsh": "_holdfast", "fish": "holdfast.fish", "powershell": "holdfast.ps1"}

// write writes a file, and makes its directory.
func write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// file returns the path of a file of the release.
func (r *release) file(format string, args ...any) string {
	return filepath.Join(r.out, fmt.Sprintf(format, args...))
}

// sums writes the checksums of all files, as sha256sum does.
func (r *release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	var b strings.Builder
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, e.Name())
	}
	return write(r.file("SHA256SUMS"), []byte(b.String()))
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
