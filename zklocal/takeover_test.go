//go:build unix

package zklocal

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"holdfast"
	"holdfast/zk"
	"holdfast/zkserver"
)

func TestTwentyProcessesMakeOneHost(t *testing.T) {
	for _, role := range []string{"member", "member that starts hosts"} {
		t.Run(role, func(t *testing.T) {
			dir := newDir(t)
			t.Cleanup(func() { endHosts(t, dir) })
			members := make([]*process, 20)
			for i := range members {
				members[i] = startProcess(t, dir, role)
			}
			hosts, started := 0, 0
			var want []string
			for i, p := range members {
				p.connected(t)
				if p.hosts {
					hosts++
				}
				started += p.started
				want = append(want, fmt.Sprintf("e%02d", i))
				p.create(t, "/"+want[i])
			}
			if role == "member" && hosts != 1 {
				t.Errorf("%d of the processes host; want 1", hosts)
			}
			if role != "member" && (hosts != 0 || started != 1) {
				t.Errorf("%d of the processes host, and they started %d hosts; want none and 1", hosts, started)
			}
			// There is one host: every client sees the nodes of all.
			client := newClient(t, newStore(t, Config{Dir: dir}))
			got, _, err := client.Children(t.Context(), "/")
			if err != nil {
				t.Fatal(err)
			}
			got = slices.DeleteFunc(got, func(name string) bool { return name == "zookeeper" })
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Errorf("got %q; want %q", got, want)
			}
		})
	}
}

func TestAKilledHostIsTakenOver(t *testing.T) {
	dir := newDir(t)
	victim := startProcess(t, dir, "member")
	victim.connected(t)
	if !victim.hosts {
		t.Fatal("the first process does not host")
	}
	victim.create(t, "/victim")
	witness := startProcess(t, dir, "member")
	witness.connected(t)
	witness.create(t, "/witness")
	client := newClient(t, newStore(t, Config{Dir: dir}))
	create(t, client, "/mine", zk.Ephemeral)
	id := sessionID(t, client)
	if pid := hostPID(t, dir); pid != victim.cmd.Process.Pid {
		t.Errorf("host.pid: got %d; want %d", pid, victim.cmd.Process.Pid)
	}

	victim.kill()

	if stat := mustExist(t, client, "/mine"); stat.EphemeralOwner != id {
		t.Errorf("/mine belongs to session %x; want %x", stat.EphemeralOwner, id)
	}
	if got := sessionID(t, client); got != id {
		t.Errorf("session %x became %x", id, got)
	}
	if stat := mustExist(t, client, "/witness"); stat.EphemeralOwner != witness.session {
		t.Errorf("/witness belongs to session %x; want %x", stat.EphemeralOwner, witness.session)
	}
	witness.create(t, "/after")
	if stat := mustExist(t, client, "/after"); stat.EphemeralOwner != witness.session {
		t.Errorf("/after belongs to session %x; want %x", stat.EphemeralOwner, witness.session)
	}
	// The victim's session is part of the store, too: it ends by its timeout, not by the kill.
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		_, ok, watch, err := client.ExistsW(ctx, "/victim")
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			watch.Stop()
			break
		}
		select {
		case <-watch.C:
		case <-ctx.Done():
			t.Fatal("the killed process's session does not expire")
		}
	}
}

func TestASessionOutlivesManyKilledHosts(t *testing.T) {
	dir := newDir(t)
	store := newStore(t, Config{Dir: dir, StartHost: hostStarter(t)})
	client := newClient(t, store)
	create(t, client, "/held", zk.Ephemeral)
	id := sessionID(t, client)
	var killed []int
	for round := range 5 {
		pid := hostPID(t, dir)
		if slices.Contains(killed, pid) {
			t.Fatalf("round %d: host.pid names process %d, which was killed", round, pid)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed = append(killed, pid)
		if stat := mustExist(t, client, "/held"); stat.EphemeralOwner != id {
			t.Fatalf("round %d: /held belongs to session %x; want %x", round, stat.EphemeralOwner, id)
		}
		create(t, client, fmt.Sprintf("/round%d", round), zk.Ephemeral)
	}
	if store.hosts() {
		t.Error("the store hosts, although a host can be started")
	}
	if got := sessionID(t, client); got != id {
		t.Errorf("session %x became %x", id, got)
	}
}

func TestAHoldAndItsQueueOutliveKilledHosts(t *testing.T) {
	dir := newDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const path = "/holdfast/locks/nightly"
	start := hostStarter(t)
	holder := newClient(t, newStore(t, Config{Dir: dir, StartHost: start}))
	waiter := newClient(t, newStore(t, Config{Dir: dir, StartHost: start}))
	hold, err := holdfast.NewMutex(holder, path).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	type result struct {
		hold *holdfast.Hold
		err  error
	}
	next := make(chan result, 1)
	go func() {
		h, err := holdfast.NewMutex(waiter, path).Lock(ctx)
		next <- result{h, err}
	}()
	for round := range 3 {
		// Each kill comes when the host shows both places in the queue.
		for {
			entries, err := holdfast.List(ctx, holder, path)
			if errors.Is(err, zk.ErrConnectionLoss) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(entries) == 2 {
				if entries[0].Token != hold.Token() {
					t.Fatalf("round %d: token %x is first; want the holder's, %x", round, entries[0].Token, hold.Token())
				}
				break
			}
		}
		if err := syscall.Kill(hostPID(t, dir), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		mustExist(t, holder, hold.Path())
		mustExist(t, waiter, hold.Path())
	}
	if err := hold.Context().Err(); err != nil {
		t.Fatalf("the lock was lost: %v", context.Cause(hold.Context()))
	}
	select {
	case r := <-next:
		t.Fatalf("the next in line acquired the lock while it was held (%v)", r.err)
	default:
	}
	if err := hold.Unlock(); err != nil {
		t.Fatal(err)
	}
	r := <-next
	if r.err != nil {
		t.Fatal(r.err)
	}
	if r.hold.Token() <= hold.Token() {
		t.Errorf("token %x follows %x; want it larger", r.hold.Token(), hold.Token())
	}
	if err := r.hold.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestAStoppedHostKeepsItsPlace(t *testing.T) {
	dir := newDir(t)
	if err := hostStarter(t)(dir); err != nil {
		t.Fatal(err)
	}
	pid := hostPID(t, dir)
	store := newStore(t, Config{Dir: dir})
	client := newClient(t, store)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	before, err := os.Lstat(filepath.Join(dir, socketName))
	if err != nil {
		t.Fatal(err)
	}

	_, err = OpenHost(zkserver.Config{Dir: dir})
	if !errors.Is(err, ErrHosted) || !strings.Contains(err.Error(), fmt.Sprintf("pid %d", pid)) {
		t.Errorf("got %v; want ErrHosted and pid %d", err, pid)
	}
	// This is like the retry after an attempt that failed because a stopped host's queue was full.
	if up, err := store.provideHost(t.Context()); up || err != nil {
		t.Errorf("with a stopped host: got %v, %v; want no other host", up, err)
	}
	after, err := os.Lstat(filepath.Join(dir, socketName))
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the socket of a stopped host was replaced (%v)", err)
	}
	if store.hosts() {
		t.Error("the store hosts a directory whose host is stopped")
	}

	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	create(t, client, "/a", zk.Ephemeral)
	if hostPID(t, dir) != pid {
		t.Error("the host changed")
	}
}

func TestAHostWithoutItsDirectoryEndsAndLeavesItsSuccessorAlone(t *testing.T) {
	dir := newDir(t)
	old := startProcess(t, dir, "host")
	if line := old.line(t); line != "ready" {
		t.Fatal(line)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	successor := newHost(t, zkserver.Config{Dir: dir})
	if line := old.line(t); !strings.Contains(line, errRemoved.Error()) {
		t.Errorf("the host whose directory was removed said %q; want %q", line, errRemoved)
	}
	old.cmd.Wait()
	for _, name := range []string{socketName, hostPIDName} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Errorf("the successor's %s: %v", name, err)
		}
	}
	select {
	case <-successor.Done():
		t.Errorf("the successor ended: %v", successor.Err())
	default:
	}
}

// anyUmask runs in its own process, because a umask applies to the whole process.
func anyUmask(dir string) error {
	for _, mask := range []int{0, 0o022, 0o077, 0o377} {
		syscall.Umask(mask)
		below := filepath.Join(dir, fmt.Sprintf("%03o", mask))
		for range 2 { // opening an existing store makes other files than the first time
			h, err := OpenHost(zkserver.Config{Dir: below})
			if err != nil {
				return fmt.Errorf("umask %03o: %w", mask, err)
			}
			err = errors.Join(allPrivate(below), h.Close())
			if err != nil {
				return fmt.Errorf("umask %03o: %w", mask, err)
			}
		}
	}
	return nil
}

func allPrivate(dir string) error {
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the store has just removed the file
		}
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			return fmt.Errorf("%s has mode %04o; want %04o", name, got, want)
		}
		return nil
	})
}

func TestFilesAreForTheirOwnerOnlyWhateverTheUmask(t *testing.T) {
	dir := t.TempDir()
	if out, err := roleCommand(dir, "any umask").Output(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
