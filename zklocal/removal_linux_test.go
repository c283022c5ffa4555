package zklocal

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/zkserver"
)

// removals is the number of times that each kind of removal happens to a holder.
var removals = flag.Int("removals", 1, "removals of a directory under a holder, of each kind")

// when waits for the report named what, and returns its time.
func (p *process) when(t *testing.T, what string) (at time.Duration, rest string) {
	t.Helper()
	for {
		word, more, _ := strings.Cut(p.line(t), " ")
		if word == what {
			fmt.Sscan(more, (*int64)(&at))
			return at, more
		}
		if word != "queued" {
			t.Fatalf("process %d said %s %s; want %s", p.cmd.Process.Pid, word, more, what)
		}
	}
}

// A removal is a way to remove the directory top/a/state, or to move it out of the way.
type removal struct {
	name   string
	remove func(top string) error
	role   string                      // of the processes; "" means they host themselves
	first  func(t *testing.T, pid int) // runs before the removal, with the host's process id
}

// removeDir removes the directory. A process that begins to host it meanwhile may make a file there, as under rm.
func removeDir(top string) error {
	for {
		err := os.RemoveAll(filepath.Join(top, "a", "state"))
		if !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
	}
}

func moveDir(top string) error {
	return os.Rename(filepath.Join(top, "a", "state"), filepath.Join(top, "a", "old"))
}

// A directory is removed or moved. The Hold ends before another process can hold the lock in
// the new directory: neither a contender that was in line nor a newcomer.
func TestNobodyHoldsBesideAHolderWhoseDirectoryIsGone(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	for _, r := range []removal{
		{name: "rm -rf of the directory", remove: removeDir},
		{name: "mv of the directory", remove: moveDir},
		{name: "mv of the directory above", remove: func(top string) error {
			return os.Rename(filepath.Join(top, "a"), filepath.Join(top, "old"))
		}},
		{name: "rm -rf of the directory above", remove: func(top string) error { return os.RemoveAll(filepath.Join(top, "a")) }},
		{name: "rm of host.lock", remove: func(top string) error { return os.Remove(filepath.Join(top, "a", "state", hostLockName)) }},
		{name: "rm -rf under a holder that hosts", remove: removeDir, role: "locker that hosts"},
		{name: "mv under a holder that hosts", remove: moveDir, role: "locker that hosts"},
		{name: "rm -rf with nothing that tells", remove: removeDir, role: "locker without inotify"},
		{name: "rm -rf under a stopped host", remove: removeDir, first: func(t *testing.T, pid int) { stopUntilTheEnd(t, pid) }},
		{name: "kill of the host and rm -rf", remove: removeDir, first: func(t *testing.T, pid int) { syscall.Kill(pid, syscall.SIGKILL) }},
	} {
		t.Run(r.name, func(t *testing.T) {
			if r.role == "locker without inotify" && !mayUnshare() {
				t.Skip("no user namespaces on this machine")
			}
			var margins, told []time.Duration
			for range *removals {
				margin, after := r.underAHolder(t)
				margins, told = append(margins, margin), append(told, after)
				if margin <= 0 {
					t.Errorf("the next holder had the lock %v before the first was told of its loss", -margin)
				}
			}
			slices.Sort(margins)
			slices.Sort(told)
			n := len(margins)
			t.Logf("figure: %d removals (%s): told after %v (median) to %v; the next held %v (least) to %v (median) later",
				n, r.name, told[n/2], told[n-1], margins[0], margins[n/2])
		})
	}
}

func stopUntilTheEnd(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
}

// inUserNamespace gives the command its own limits.
func inUserNamespace(cmd *exec.Cmd) {
	self := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: self(os.Getuid()), GidMappings: self(os.Getgid()),
		AmbientCaps: []uintptr{unix.CAP_SYS_RESOURCE}, // to change the limit, even for a user who is not root
	}
}

func mayUnshare() bool {
	cmd := exec.Command("true")
	inUserNamespace(cmd)
	return cmd.Run() == nil
}

// underAHolder returns the time from the end of a Hold to the next one, and the time from
// the removal to the end.
func (r *removal) underAHolder(t *testing.T) (margin, told time.Duration) {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "a", "state")
	role := r.role
	if role == "" {
		role = "locker"
	}
	var options []func(*exec.Cmd)
	if role == "locker without inotify" {
		options = append(options, inUserNamespace)
	}
	start := func() *process { return startProcess(t, dir, role, options...) }
	holder, contender, newcomer := start(), start(), start()
	defer func() {
		for _, p := range []*process{holder, contender, newcomer} {
			p.kill()
		}
		endHosts(t, dir)
	}()
	fmt.Fprintln(holder.in)
	holder.when(t, "held")
	fmt.Fprintln(contender.in)
	contender.when(t, "queued")

	if r.first != nil {
		r.first(t, hostPID(t, dir))
	}
	began := time.Duration(time.Now().UnixNano())
	if err := r.remove(top); err != nil {
		left, _ := os.ReadDir(dir)
		t.Fatal(err, left)
	}
	fmt.Fprintln(newcomer.in)
	type report struct {
		at  time.Duration
		err error
	}
	next := make(chan report, 2)
	for _, p := range []*process{contender, newcomer} {
		go func() {
			for p.out.Scan() {
				word, more, _ := strings.Cut(p.out.Text(), " ")
				switch word {
				case "held":
					var r report
					fmt.Sscan(more, (*int64)(&r.at))
					next <- r
					return
				case "error:":
					next <- report{err: errors.New(more)}
					return
				}
			}
		}()
	}
	lost, why := holder.when(t, "lost")
	if !strings.Contains(why, errRemoved.Error()) {
		t.Errorf("the holder was told %q", why)
	}
	select {
	case r := <-next:
		if r.err != nil {
			t.Fatal(r.err)
		}
		return r.at - lost, lost - began
	case <-time.After(patience):
		t.Fatal("nobody acquired the lock in the new directory")
		return 0, 0
	}
}

// Four processes acquire the lock again and again while the directory comes and goes at random.
func TestHoldsNeverOverlapWhileTheDirectoryComesAndGoes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: go test without -short runs it")
	}
	for _, role := range []string{"user", "user that hosts"} {
		t.Run(role, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "a", "state")
			users := make([]*process, 4)
			type tenure struct {
				from, to int64
				user     int
			}
			var (
				mu      sync.Mutex // guards tenures
				tenures []tenure
				reading sync.WaitGroup
			)
			for i := range users {
				p := startProcess(t, dir, role)
				p.patient()
				users[i] = p
				reading.Go(func() {
					for p.out.Scan() {
						had := tenure{user: i}
						if n, _ := fmt.Sscanf(p.out.Text(), "had %d %d", &had.from, &had.to); n != 2 {
							t.Errorf("user %d said %q", i, p.out.Text())
							continue
						}
						mu.Lock()
						tenures = append(tenures, had)
						mu.Unlock()
					}
				})
			}
			if role == "user" {
				defer endHosts(t, dir)
			}
			ways := []func() error{
				func() error { return removeDir(top) },
				func() error { return os.Rename(dir, filepath.Join(top, fmt.Sprintf("old%d", rand.Int()))) },
				func() error {
					return os.Rename(filepath.Join(top, "a"), filepath.Join(top, fmt.Sprintf("old%d", rand.Int())))
				},
				func() error { return os.RemoveAll(filepath.Join(top, "a")) },
				func() error { // as rm -rf DIR/* does, which leaves the directory
					names, _ := filepath.Glob(filepath.Join(dir, "*"))
					for _, name := range names {
						os.RemoveAll(name)
					}
					return nil
				},
			}
			held := func() int {
				mu.Lock()
				defer mu.Unlock()
				return len(tenures)
			}
			lockIsUsed := func() {
				for before, end := held(), time.Now().Add(patience); held() < before+3; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("nobody acquires the lock any more")
					}
				}
			}
			for range 2 * *removals {
				lockIsUsed()
				time.Sleep(rand.N(50 * time.Millisecond))
				if err := ways[rand.N(len(ways))](); err != nil && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrNotExist) {
					t.Error(err)
				}
			}
			lockIsUsed()
			for _, p := range users {
				p.in.Close()
				defer p.cmd.Wait()
			}
			reading.Wait()
			slices.SortFunc(tenures, func(a, b tenure) int { return cmp.Compare(a.from, b.from) })
			for i, next := range tenures[1:] {
				if last := tenures[i]; next.from <= last.to {
					t.Errorf("user %d held the lock while user %d still held it, for %v", next.user, last.user, time.Duration(last.to-next.from))
				}
			}
			t.Logf("figure: %d removals, %d tenures", 2**removals, len(tenures))
		})
	}
}

// A host detects the removal before its next look at the directory, and before a newcomer asks.
func TestAHostSeesItsDirectoryGoAtOnce(t *testing.T) {
	for _, way := range []struct {
		name   string
		remove func(top string) error
	}{
		{"rm -rf of the directory", removeDir},
		{"mv of the directory", moveDir},
		{"mv of a directory above", func(top string) error { return os.Rename(top, top+".old") }},
		{"rm -rf of a directory above", os.RemoveAll},
		{"rm of host.lock", func(top string) error { return os.Remove(filepath.Join(top, "a", "state", hostLockName)) }},
		{"another host.lock", func(top string) error {
			other := filepath.Join(top, "other")
			if err := os.WriteFile(other, nil, 0o600); err != nil {
				return err
			}
			return os.Rename(other, filepath.Join(top, "a", "state", hostLockName))
		}},
		{"a link above that leads elsewhere", func(top string) error {
			if err := os.Symlink(top, filepath.Join(top, "b")); err != nil {
				return err
			}
			return os.Rename(filepath.Join(top, "b"), filepath.Join(top, "..", "link"))
		}},
		{"mv of what a link above leads to", func(top string) error {
			return os.Rename(filepath.Join(top, "a"), filepath.Join(top, "b"))
		}},
	} {
		t.Run(way.name, func(t *testing.T) {
			base := t.TempDir()
			top := filepath.Join(base, "top")
			if err := os.MkdirAll(filepath.Join(top, "a"), 0o700); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(base, "link")
			if err := os.Symlink(filepath.Join(top, "a"), link); err != nil {
				t.Fatal(err)
			}
			h := newHost(t, zkserver.Config{Dir: filepath.Join(link, "state")})
			began := time.Now() // near the start of the first interval between two looks
			if h.watch == nil {
				t.Skip("the user has no inotify instance left")
			}
			if err := way.remove(top); err != nil {
				t.Fatal(err)
			}
			wait(t, h.server.Done(), "the end of the server")
			if took := time.Since(began); took >= removalCheck*9/10 {
				t.Errorf("the server ended %v after its start; want it before the first look, after %v", took, removalCheck)
			}
			wait(t, h.Done(), "the end of the host")
			if err := h.Err(); !errors.Is(err, errRemoved) {
				t.Errorf("Err: got %v; want %v", err, errRemoved)
			}
		})
	}
}

// The holders were told and need time to stop, so the next host waits.
func TestTheHostOfARemovedDirectoryKeepsItsPathForAWhile(t *testing.T) {
	dir := newDir(t)
	h := newHost(t, zkserver.Config{Dir: dir})
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
	wait(t, h.server.Done(), "the end of the server")
	stopped := time.Now()
	newHost(t, zkserver.Config{Dir: dir})
	if took := time.Since(stopped); took < removalGrace {
		t.Errorf("the next host came up %v after the connections were closed; want %v at least", took, removalGrace)
	}
}
