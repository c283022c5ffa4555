package supervise

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A process is one line of /proc.
type process struct {
	pid, parent, group int
	state              byte   // 'Z' or 'X': it has ended
	start              uint64 // when it was started, in ticks since boot
}

func (p process) ended() bool { return p.state == 'Z' || p.state == 'X' }

// readProcess reads /proc/PID/stat; false if the process has gone.
func readProcess(pid int) (process, bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The name in parentheses can contain anything, parentheses as well.
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 20 {
		return process{}, false
	}
	parent, _ := strconv.Atoi(string(f[1]))
	group, _ := strconv.Atoi(string(f[2]))
	start, _ := strconv.ParseUint(string(f[19]), 10, 64)
	return process{pid: pid, parent: parent, group: group, state: f[0][0], start: start}, true
}

// numbers are the entries of a directory in /proc that are numbers.
func numbers(dir string) []int {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var all []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// children lists the children of a process. A child that ends at this moment can hide another
// (proc(5)), so an empty list alone proves nothing: see family.everybody.
func children(pid int) []int {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	var all []int
	for _, thread := range numbers(dir) {
		list, err := os.ReadFile(dir + strconv.Itoa(thread) + "/children")
		if err != nil {
			continue // a thread that has just ended; its children are another thread's now
		}
		for _, f := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// A family is the descendants of this process, but for those that are spared, and for theirs.
// Its process must be a subreaper: nobody leaves the family then.
type family struct {
	spare func(pid int) bool
	quick bool // the kernel lists children (CONFIG_PROC_CHILDREN)
}

func newFamily(spare func(pid int) bool) *family {
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	return &family{spare: spare, quick: err == nil}
}

// list lists those of the family that live. It may miss some, see children.
func (f *family) list() []process {
	if !f.quick {
		return f.everybody()
	}
	var found []process
	for next := children(os.Getpid()); len(next) > 0; {
		pid := next[0]
		next = next[1:]
		p, ok := readProcess(pid)
		if !ok || f.spare(pid) {
			continue
		}
		if !p.ended() {
			found = append(found, p)
		}
		next = append(next, children(pid)...)
	}
	return found
}

// everybody is list from the parents of all processes of the machine. It takes longer, and
// misses only what is started meanwhile.
func (f *family) everybody() []process {
	below := make(map[int][]process)
	for _, pid := range numbers("/proc") {
		if p, ok := readProcess(pid); ok {
			below[p.parent] = append(below[p.parent], p)
		}
	}
	var found []process
	for next := []int{os.Getpid()}; len(next) > 0; next = next[1:] {
		for _, p := range below[next[0]] {
			if f.spare(p.pid) {
				continue
			}
			if !p.ended() {
				found = append(found, p)
			}
			next = append(next, p.pid)
		}
	}
	return found
}

// signalAll signals each of the processes, and first the process groups that they lead: a signal to
// a group reaches also what its processes fork at this moment (kill(2) walks through the
// group with forks locked out). A group that is led by none of them may have others in it.
// It reports those that may not be signalled.
func signalAll(all []process, sig unix.Signal) (refused []process) {
	members := make(map[int]bool, len(all))
	for _, p := range all {
		members[p.pid] = true
	}
	done := make(map[int]bool)
	for _, p := range all {
		if members[p.group] && !done[p.group] {
			done[p.group] = true
			_ = unix.Kill(-p.group, sig)
		}
	}
	for _, p := range all {
		if unix.Kill(p.pid, sig) == unix.EPERM {
			refused = append(refused, p)
		}
	}
	return refused
}

// maxFreezes bounds how often the family is frozen before it is killed: one that grows
// faster than it can be listed is killed while it runs, again and again.
const maxFreezes = 20

// strike freezes the family and then kills it. Frozen first, because a parent would replace
// the child that it sees die. What was forked unseen is left for the next strike.
func (f *family) strike() (struck, refused []process) {
	frozen := make(map[int]bool)
	for range maxFreezes {
		all := f.list()
		grown := false
		for _, p := range all {
			grown = grown || !frozen[p.pid]
			frozen[p.pid] = true
		}
		struck = all
		if !grown {
			break
		}
		signalAll(all, unix.SIGSTOP)
	}
	return struck, signalAll(struck, unix.SIGKILL)
}

// end strikes until the family has died out, however long that takes: a process that has become
// another user, and that we may not kill, keeps it waiting. say is told of it, once.
func (f *family) end(say func(format string, args ...any), reap func()) {
	warned := make(map[int]bool)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		struck, refused := f.strike()
		for _, p := range refused {
			if !warned[p.pid] {
				warned[p.pid] = true
				say("cannot kill process %d, left behind by the command: %v; the lock is held until it ends", p.pid, unix.EPERM)
			}
		}
		reap()
		if len(struck) == 0 && len(f.everybody()) == 0 {
			return
		}
		awaitEnd(struck, pause)
	}
}

// awaitEnd waits until one of the processes has ended, but not longer than patience.
func awaitEnd(all []process, patience time.Duration) {
	if len(all) > 0 {
		if fd, err := unix.PidfdOpen(all[0].pid, 0); err == nil {
			defer unix.Close(fd)
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(patience.Milliseconds()))
			return
		}
	}
	time.Sleep(patience)
}
