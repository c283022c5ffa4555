package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// rpmArch is this machine's architecture, as RPM calls it.
var rpmArch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[host.arch]

// The units and settings of a package name documents that the package has.
func TestNamedDocumentsAreInThePackage(t *testing.T) {
	documents, err := documentsIn("..")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../contrib/systemd/*")
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\S*docs/\S+\.md`).FindAllString(string(text), -1) {
			named++
			if at, ok := strings.CutPrefix(name, "/usr/share/doc/holdfast/"); !ok || !slices.Contains(documents, at) {
				t.Errorf("%s names %s, which is not in the packages", file, name)
			}
		}
	}
	if named == 0 {
		t.Error("no document is named")
	}
}

func TestPackagesAreClean(t *testing.T) {
	m := getRelease(t)
	t.Run("lintian", func(t *testing.T) {
		check := exec.Command(need(t, "lintian"), "--allow-root", "--tag-display-limit", "0", m.one(t, "*"+host.arch+".deb"))
		remarks(t, check, map[string]string{
			"bogus-mail-host Maintainer":           "holdfast has no address yet: -maintainer sets it",
			"bogus-mail-host-in-debian-changelog":  "the same",
			"statically-linked-binary":             "a program without cgo runs with every libc",
			"maintainer-script-calls-systemctl [p": "the scripts start nothing; they restart and stop what runs, where systemd runs",
		})
	})
	t.Run("rpmlint", func(t *testing.T) {
		need(t, "rpmlint")
		check := exec.Command("sh", "-c", `PATH="$PWD/testdata/bin:$PATH" rpmlint "$1" | grep ': [EW]: '`, "rpmlint", m.one(t, "*."+rpmArch+".rpm"))
		remarks(t, check, map[string]string{
			"only-non-binary-in-usr-lib":         "units of systemd belong there",
			"no-url-tag":                         "holdfast has no home yet",
			"no-signature":                       "the publisher signs it",
			"no-manual-page-for-binary":          "this rpmlint looks for .bz2; the pages are .gz, as on Fedora and SUSE",
			"manpage-not-compressed bz2":         "the same",
			"no-changelogname-tag":               "the changelog is a file of the package",
			"statically-linked-binary":           "a program without cgo runs with every libc",
			"position-independent-executable":    "a static program of Go is at a fixed address",
			"invalid-license Apache-2.0":         "the rpmlint of Debian has no list of licences; it is the SPDX identifier",
			"dangerous-command-in-%post install": "install -d makes the directory of the socket where systemd-tmpfiles is missing",
		})
	})
	t.Run("mandoc", func(t *testing.T) {
		mandoc := need(t, "mandoc")
		dir := t.TempDir()
		if _, err := output(exec.Command("dpkg-deb", "-x", m.one(t, "*"+host.arch+".deb"), dir)); err != nil {
			t.Fatal(err)
		}
		pages, err := filepath.Glob(filepath.Join(dir, "usr/share/man/man*/*.gz"))
		if err != nil || len(pages) < 20 {
			t.Fatalf("%d pages, %v", len(pages), err)
		}
		for _, page := range pages {
			remarks(t, exec.Command(mandoc, "-Tlint", "-Wwarning", page), nil)
		}
	})
}

func TestUnitsAreValid(t *testing.T) {
	m := getRelease(t)
	analyze := need(t, "systemd-analyze")
	dir := t.TempDir()
	if _, err := output(exec.Command("dpkg-deb", "-x", m.one(t, "*"+host.arch+".deb"), dir)); err != nil {
		t.Fatal(err)
	}
	for _, unit := range []string{"holdfast.service", "holdfast-ui.service", "holdfast-tf.service"} {
		path := filepath.Join(dir, "usr/lib/systemd/system", unit)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// verify looks for the program, which is not installed here.
		text = []byte(strings.ReplaceAll(string(text), "/usr/bin/holdfast", filepath.Join(dir, "usr/bin/holdfast")))
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		remarks(t, exec.Command(analyze, "verify", "--man=no", path), nil)
		// The scale is 0 to 10, and 10 is no protection at all.
		if out, err := exec.Command(analyze, "security", "--offline=yes", "--no-pager", "--threshold=20", path).CombinedOutput(); err != nil {
			t.Errorf("%s is exposed: %v\n%s", unit, err, out)
		}
	}
}

// cleanRoot is a minimal Debian without holdfast.
var cleanRoot = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(filepath.Dir(theRelease().clone), "debian")
	mirror, err := output(exec.Command("sh", "-c", `apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Codename: bookworm' | head -n 1`))
	if err != nil {
		return "", err
	}
	_, err = output(exec.Command("debootstrap", "--variant=minbase", "--include=cron,systemd,systemd-sysv", "bookworm", dir, strings.TrimSpace(mirror)))
	return dir, err
})

// copyOfCleanRoot returns a copy that a test can change.
func copyOfCleanRoot(t *testing.T) string {
	t.Helper()
	need(t, "debootstrap")
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("run it as root, for chroot")
		}
		t.Skip("needs root, for chroot")
	}
	clean, err := cleanRoot()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "root")
	if _, err := output(exec.Command("cp", "-a", clean, dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "packages"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// olderRelease makes a release of the commit before, or of the same commit if the clone has no other.
var olderRelease = sync.OnceValue(func() *madeRelease {
	m := *theRelease()
	if m.err != nil {
		return &m
	}
	dir := filepath.Join(filepath.Dir(m.clone), "older")
	commit := "HEAD"
	if exec.Command("git", "-C", m.clone, "cat-file", "-e", "HEAD~1:packaging/files/deb/postinst").Run() == nil {
		commit = "HEAD~1"
	}
	m.clone = filepath.Join(dir, "clone")
	m.root, m.out, m.version, m.only = m.clone, filepath.Join(dir, "dist"), "v0.1.0-rc.1", host.String()
	if m.err = cloneHere(m.clone, commit); m.err == nil {
		m.err = m.make(context.Background())
	}
	return &m
})

// bootRoot boots a root with its systemd, runs /packages/SCRIPT there as a service, and returns what it prints. Its
// network is its own, and ends with it, as do the processes. The shell script before runs first in that network, with
// the programs of this machine. binds are directories of this machine that the root has, too.
func bootRoot(t *testing.T, root, script, before string, binds []string, env ...string) string {
	t.Helper()
	var unit strings.Builder
	unit.WriteString("[Unit]\nAfter=basic.target cron.service\nSuccessAction=exit-force\nFailureAction=exit-force\n" +
		"[Service]\nType=oneshot\nTimeoutStartSec=20min\nWorkingDirectory=/root\nStandardOutput=file:/packages/out\nStandardError=inherit\n" +
		"Environment=DEBIAN_FRONTEND=noninteractive PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root\n")
	for _, e := range env {
		fmt.Fprintf(&unit, "Environment=%s\n", e)
	}
	fmt.Fprintf(&unit, "ExecStart=/bin/sh /packages/%s\n", script)
	units := filepath.Join(root, "etc/systemd/system")
	if err := write(filepath.Join(units, "test.service"), []byte(unit.String())); err != nil {
		t.Fatal(err)
	}
	wants := filepath.Join(units, "multi-user.target.wants")
	if err := os.MkdirAll(wants, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../test.service", filepath.Join(wants, "test.service")); err != nil {
		t.Fatal(err)
	}
	// In a namespace of its own, systemd-nspawn leaves nothing in /run of this machine.
	args := []string{"--mount", "--mount-proc", "--pid", "--fork", "--kill-child", "--net", "sh", "-euc",
		before + "\nmount -t tmpfs tmpfs /run\nip link set lo up\nexec \"$@\"", "sh",
		need(t, "systemd-nspawn"), "--quiet", "--boot", "--keep-unit", "--register=no", "--machine=test", "--directory=" + root}
	for _, dir := range binds {
		args = append(args, "--bind="+dir)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
	defer cancel()
	boot, err := exec.CommandContext(ctx, need(t, "unshare"), args...).CombinedOutput()
	out, _ := os.ReadFile(filepath.Join(root, "packages/out"))
	if err != nil || !strings.HasSuffix(string(out), "== ok\n") {
		t.Errorf("%s: %v\n%s\nthe boot:\n%s", script, err, out, boot)
	}
	return string(out)
}

func copyFile(t *testing.T, to, from string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestDebInACleanRoot(t *testing.T) {
	m := getRelease(t)
	older := olderRelease()
	if older.err != nil {
		t.Fatal(older.err)
	}
	root := copyOfCleanRoot(t)
	copyFile(t, filepath.Join(root, "packages/new.deb"), m.one(t, "*"+host.arch+".deb"))
	copyFile(t, filepath.Join(root, "packages/old.deb"), older.one(t, "*.deb"))
	copyFile(t, filepath.Join(root, "packages/deb.sh"), "testdata/deb.sh")
	bootRoot(t, root, "deb.sh", "", nil)
}

func TestRPMInACleanRoot(t *testing.T) {
	m := getRelease(t)
	need(t, "rpm")
	older := olderRelease()
	if older.err != nil {
		t.Fatal(older.err)
	}
	// The programs in the root need /proc. The mounts end with the script.
	run := exec.Command(need(t, "unshare"), "--mount", "--pid", "--fork", "--kill-child", "sh", "-euc",
		`mount -t proc proc "$1/proc"; mount --bind /dev "$1/dev"; exec sh testdata/rpm.sh "$@"`, "sh",
		copyOfCleanRoot(t), older.one(t, "*.rpm"), m.one(t, "*."+rpmArch+".rpm"))
	out, err := run.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "== ok\n") {
		t.Errorf("rpm.sh: %v\n%s", err, out)
	}
}
