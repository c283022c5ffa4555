package doctor

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"holdfast/internal/cli/conn"
	"holdfast/internal/cli/term"
	"holdfast/internal/duration"
	"holdfast/zklocal"
)

const (
	// slowSync is the median time of a disk sync from which doctor warns.
	slowSync = 50 * time.Millisecond
	// littleSpace is the free space below which doctor warns, besides four times the store.
	littleSpace = 64 << 20
	// noSpace is the free space with which the store cannot make its next journal.
	noSpace = 8 << 20
	// crashAge is how old an incomplete file is at least if a crash has left it.
	crashAge = 10 * time.Minute
)

// storeExists reports whether the directory has a store.
func storeExists(dir string) bool {
	_, err := os.Lstat(zklocal.HostLock(dir))
	return err == nil
}

// examineStore examines the directory of a file:// server. It creates nothing.
func (d *examiner) examineStore() (f findings) {
	dir := d.target.Dir
	if dir == "" {
		return nil
	}
	at := dir
	if storeExists(dir) {
		// Open checks owner, mode, and whether the file system is local.
		s, err := zklocal.Open(zklocal.Config{Dir: dir})
		if err != nil {
			f.problem("store", "", "%s", term.Cut(strings.TrimPrefix(err.Error(), "zklocal: "), 300))
			return f
		}
		_ = s.Close() // it is not used
		f.ok("store", "%s: only this user can enter it", dir)
		f = append(f, examineFiles(dir, time.Now())...)
	} else {
		for _, err := os.Lstat(at); err != nil && at != filepath.Dir(at); _, err = os.Lstat(at) {
			at = filepath.Dir(at)
		}
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			err = syscall.ENOTDIR
		}
		if err == nil {
			err = mayCreate(at)
		}
		if err != nil {
			f.problem("store", "give a directory that belongs to you: --server file:///directory", "%s cannot be made in %s: %v", dir, at, err)
			return f
		}
		f.ok("store", "%s has no store yet; the first lock makes it", dir)
	}
	return append(f, examineDisk(at, sizeOf(dir))...)
}

// examineFiles looks for files of other users and for those of a crash.
func examineFiles(dir string, now time.Time) (f findings) {
	var foreign, left []string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // it has been removed since, or Open reports it
		}
		info, err := e.Info()
		if err != nil {
			return nil
		}
		if uid, ok := ownerID(info); ok && uid != os.Geteuid() {
			foreign = append(foreign, path)
		}
		if strings.HasSuffix(path, ".tmp") && now.Sub(info.ModTime()) > crashAge {
			left = append(left, path)
		}
		return nil
	})
	if len(foreign) > 0 {
		f.problem("store", fmt.Sprintf("chown -R them to user id %d; another user, such as root, has used this directory", os.Geteuid()), "%s of another user: %s", term.Count(len(foreign), "file"), some(foreign))
	}
	if len(left) > 0 {
		f.warning("store", "the host removes such files when it starts; they do no harm", "%s of an interrupted write: %s", term.Count(len(left), "file"), some(left))
	}
	return f
}

// sizeOf returns the size of all files below dir.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}

// A disk is what is known of a file system.
type disk struct {
	kind  string // such as ext4
	free  uint64 // bytes for this user
	files uint64 // how many more can be made; ^0 if unlimited
	syncs []time.Duration
}

// examineDisk examines the file system of a directory.
func examineDisk(dir string, size int64) (f findings) {
	k, err := readDisk(dir)
	if err != nil {
		f.warning("store", "", "cannot examine the file system of %s: %v", dir, err)
		return f
	}
	k.judge(&f, dir, size)
	return f
}

// judge reports on the disk of a store of that size.
func (k disk) judge(f *findings, dir string, size int64) {
	const mb = 1 << 20
	want := uint64(4*size + littleSpace)
	space := fmt.Sprintf("%s: %d MB free on %s", dir, k.free/mb, k.kind)
	switch {
	case k.free < noSpace:
		f.problem("store", "make room; the server stops when it cannot write", "%s", space)
	case k.files < 16:
		f.problem("store", "remove files; the server stops when it cannot make a file", "%s: no more files can be made on %s", dir, k.kind)
	case k.free < want:
		f.warning("store", "make room; the server stops when it cannot write", "%s; the store may need %d MB", space, want/mb)
	case k.kind == "overlay":
		f.warning("store", "in a container: mount a volume there, the same for all containers that share locks", "%s, the container's own file system: it goes with the container", space)
	default:
		f.ok("store", "%s", space)
	}
	if len(k.syncs) == 0 {
		return
	}
	sorted := slices.Sorted(slices.Values(k.syncs))
	found := fmt.Sprintf("a disk sync takes %s, at most %s of %d", duration.Measured(median(sorted)), duration.Measured(sorted[len(sorted)-1]), len(sorted))
	if median(sorted) >= slowSync {
		f.warning("store", "use a faster disk, or one that other programs leave alone; every lasting write waits for a sync", "%s, which is slow", found)
		return
	}
	f.ok("store", "%s", found)
}

// examineEnvironment looks for other jobs of this machine that would use another server.
func (d *examiner) examineEnvironment() (f findings) {
	switch from, at := d.Source("server"); from {
	case conn.LayerEnvironment:
		f.ok("environment", "%s names the server; cron, sudo and systemd start jobs without it", at)
	case conn.LayerUser:
		f.ok("environment", "%s names the server; jobs of other users do not read this file", at)
	case conn.LayerSystem, conn.LayerProfile:
		f.ok("environment", "%s names the server", at)
	}
	if !d.byDefault {
		return f
	}
	me, err := user.Current()
	if err != nil {
		me = &user.User{Uid: fmt.Sprint(os.Geteuid())}
	}
	var sudo *user.User
	if name := os.Getenv("SUDO_USER"); name != "" && os.Geteuid() == 0 {
		if u, err := user.Lookup(name); err == nil {
			sudo = u
		}
	}
	judgeHomes(&f, d.target.Dir, os.Getenv, me, sudo, storeExists)
	return f
}

// judgeHomes looks for default stores that other jobs of this user, or of the user before sudo, have used. dir is
// the default store of this process.
func judgeHomes(f *findings, dir string, env func(string) string, me, sudo *user.User, exists func(dir string) bool) {
	type other struct{ dir, who string }
	below := func(home string) string { return filepath.Join(home, ".local", "state", "holdfast") }
	var all []other
	if env("XDG_STATE_HOME") != "" && env("HOME") != "" {
		all = append(all, other{below(env("HOME")), "jobs without XDG_STATE_HOME, such as those of cron"})
	}
	if me.HomeDir != "" {
		all = append(all, other{below(me.HomeDir), "jobs whose HOME is that of the account (" + me.HomeDir + ")"})
	}
	if sudo != nil && sudo.HomeDir != "" {
		all = append(all, other{below(sudo.HomeDir), "jobs of " + sudo.Username + " without sudo"})
	}
	if me.Uid != "0" {
		all = append(all, other{below("/root"), "jobs of root"})
	}
	seen := map[string]bool{dir: true}
	for _, o := range all {
		if seen[o.dir] || !exists(o.dir) {
			continue
		}
		seen[o.dir] = true
		f.warning("environment", "their locks and yours do not exclude each other: give both the same --server, in the crontab as well (HOLDFAST_SERVER=file://"+term.Cut(dir, 100)+")",
			"%s use another store, %s", o.who, o.dir)
	}
	who := me.Username
	if who == "" {
		who = "user id " + me.Uid
	}
	f.ok("environment", "the default store is %s; it is for the jobs of %s alone", dir, who)
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
