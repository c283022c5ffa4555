package supervise

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A process is one entry of /proc.
type process struct {
	pid, parent, group, session int
	state                       byte   // 'Z' or 'X': the main thread has ended
	headless                    bool   // the main thread has ended, and others live
	start                       uint64 // start time, in ticks since boot; 0 if /proc hides the process
}

// isStillThere reports whether the process has not been reaped. Otherwise its number may be another's by now.
func (p process) isStillThere() bool {
	now, ok := readProcess(p.pid)
	return ok && now.start == p.start || !ok && p.start == 0
}

// signal sends sig to the process, and never to another one that has got its number since.
func (p process) signal(sig unix.Signal) error {
	if !hasPidfds() {
		if !p.isStillThere() {
			return unix.ESRCH
		}
		return unix.Kill(p.pid, sig)
	}
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil && err != unix.EMFILE && err != unix.ENFILE {
		return err
	}
	if err == nil {
		defer unix.Close(fd)
	}
	switch {
	case !p.isStillThere(): // after PidfdOpen, so that fd is of this process
		return unix.ESRCH
	case err != nil:
		return unix.Kill(p.pid, sig)
	}
	return unix.PidfdSendSignal(fd, sig, nil, 0)
}

// hasPidfds reports whether signals can be sent by descriptors of processes (Linux 5.3, and no seccomp filter).
var hasPidfds = sync.OnceValue(func() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.PidfdSendSignal(fd, 0, nil, 0) == nil
})

// ended reports whether all threads have ended.
func (p process) ended() bool { return (p.state == 'Z' || p.state == 'X') && !p.headless }

// readProc reads a file of /proc into b, or into a larger buffer if needed. It makes fewer
// system calls than os.ReadFile, which matters when all processes are read.
func readProc(name string, b []byte) ([]byte, error) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	for n := 0; ; {
		if n == len(b) {
			b = append(b, make([]byte, len(b))...)
		}
		m, err := unix.Read(fd, b[n:])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, err
		case m == 0:
			return b[:n], nil
		}
		n += max(m, 0)
	}
}

// readProcess reads /proc/PID/stat. It returns false if the process is gone.
func readProcess(pid int) (process, bool) {
	var room [1024]byte
	f, ok := readStat("/proc/"+strconv.Itoa(pid)+"/stat", room[:])
	if !ok {
		return process{}, false
	}
	parent, _ := strconv.Atoi(string(f[1]))
	group, _ := strconv.Atoi(string(f[2]))
	session, _ := strconv.Atoi(string(f[3]))
	threads, _ := strconv.Atoi(string(f[17]))
	start, _ := strconv.ParseUint(string(f[19]), 10, 64)
	p := process{pid: pid, parent: parent, group: group, session: session, state: f[0][0], start: start}
	p.headless = p.state == 'Z' && threads > 1 && slices.ContainsFunc(numbers("/proc/"+strconv.Itoa(pid)+"/task"), func(thread int) bool {
		f, ok := readStat(fmt.Sprintf("/proc/%d/task/%d/stat", pid, thread), make([]byte, 1024))
		return ok && f[0][0] != 'Z' && f[0][0] != 'X' // a thread that is traced can stay a zombie
	})
	return p, true
}

// readStat reads a stat file of /proc, into room if that is large enough, and returns its
// fields from the third on.
func readStat(name string, room []byte) (fields [][]byte, ok bool) {
	stat, err := readProc(name, room)
	if err != nil {
		return nil, false
	}
	// The name in parentheses can contain any character, also parentheses.
	fields = bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return fields, len(fields) >= 20
}

// names returns the entries of a directory, and none if it cannot be read.
func names(dir string) []string {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	all, _ := d.Readdirnames(-1)
	return all
}

// numbers returns the numeric entries of a directory in /proc.
func numbers(dir string) []int {
	var all []int
	for _, name := range names(dir) {
		if n, err := strconv.Atoi(name); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// childless reports whether this process certainly has no children, ended ones included.
func childless() bool {
	_, err := waitID(unix.P_ALL, 0, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL)
	return err == unix.ECHILD
}

// children lists the children of a process. A child that ends at this moment can hide another
// (proc(5)), so an empty list alone proves nothing: see family.everybody.
func children(pid int) []int {
	dir := "/proc/" + strconv.Itoa(pid) + "/task/"
	var all []int
	for _, thread := range numbers(dir) {
		var room [4096]byte
		list, err := readProc(dir+strconv.Itoa(thread)+"/children", room[:])
		if err != nil {
			continue // the thread has just ended; another thread has its children now
		}
		for _, f := range strings.Fields(string(list)) {
			if child, err := strconv.Atoi(f); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// A family is the set of descendants of this process, without spared processes and their
// descendants. This process must be a subreaper: then no process leaves the family.
type family struct {
	spare  func(pid int) bool
	spared bool             // a child of this process was spared
	over   bool             // the command has exited, so strike may reap
	reaped func(childEvent) // called for every child that reap has reaped; may be nil
}

func newFamily(spare func(pid int) bool) *family { return &family{spare: spare} }

// listsChildren reports whether the kernel lists children (CONFIG_PROC_CHILDREN).
var listsChildren = sync.OnceValue(func() bool {
	_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
	return err == nil
})

// list lists the living processes of the family. It may miss some, see children.
func (f *family) list() []process {
	if !listsChildren() {
		return f.everybody()
	}
	return f.below(func(number int) (all []process) {
		for _, pid := range children(number) {
			p, ok := readProcess(pid)
			if !ok && unix.Kill(pid, 0) != unix.ESRCH {
				p, ok = process{pid: pid, parent: number}, true // a process of another user, with hidepid
			}
			if ok {
				all = append(all, p)
			}
		}
		return all
	})
}

// below returns the living processes below this one. childrenOf lists the children of the process with a number.
//
// If a process has ended meanwhile, they may be the children of another one that has got its number. A child of ours has
// a new parent then, so a later list shows it.
func (f *family) below(childrenOf func(number int) []process) (found []process) {
	self := os.Getpid()
	for next := []process{{pid: self}}; len(next) > 0; next = next[1:] {
		parent := next[0]
		all := childrenOf(parent.pid)
		is := len(all) > 0 && (parent.pid == self || parent.isStillThere())
		for _, p := range all {
			if p.parent != self && (p.parent != parent.pid || !is) || f.spares(p) {
				continue
			}
			if !p.ended() {
				found = append(found, p)
			}
			next = append(next, p)
		}
	}
	return found
}

// everybody does the same as list, from the parents of all processes of the machine. It is
// slower, and misses only processes that start meanwhile.
func (f *family) everybody() []process {
	byParent := make(map[int][]process)
	for _, pid := range numbers("/proc") {
		if p, ok := readProcess(pid); ok {
			byParent[p.parent] = append(byParent[p.parent], p)
		}
	}
	return f.below(func(number int) []process { return byParent[number] })
}

func (f *family) spares(p process) bool {
	if p.ended() || !f.spare(p.pid) {
		return false
	}
	f.spared = f.spared || p.parent == os.Getpid()
	return true
}

// looks is the number of times that reap lists all processes if a spared child exists, because
// then the kernel cannot confirm that no other is left. One listing can miss a process that
// forks and ends again and again.
const looks = 30

// reap reaps the ended children of this process, the command too. It reports whether no process
// of the family is left.
//
// If the kernel knows of no child, we have no descendants. If it knows of one that is not
// spared, the family lives, even if /proc shows none.
func (f *family) reap() (diedOut bool) {
	if f.collect() {
		return true
	}
	if !f.spared {
		return false
	}
	for range looks {
		if len(f.everybody()) > 0 {
			return false
		}
	}
	return true
}

// collect reaps the ended children of this process. It reports whether no child is left.
func (f *family) collect() (none bool) {
	for {
		e, err := waitID(unix.P_ALL, 0, unix.WEXITED|unix.WNOHANG|unix.WALL)
		switch {
		case err != nil: // ECHILD
			return true
		case e.pid == 0:
			return false
		case f.reaped != nil:
			f.reaped(e)
		}
	}
}

// zombies reports whether this process has children, and all of them have ended.
func (f *family) zombies() (some bool) {
	for _, pid := range numbers("/proc") {
		if p, ok := readProcess(pid); ok && p.parent == os.Getpid() && !f.spares(p) {
			if some = true; !p.ended() {
				return false
			}
		}
	}
	return some
}

// ourSession returns the session in which the command starts.
var ourSession = sync.OnceValue(func() int {
	sid, _ := unix.Getsid(0)
	return sid
})

// signalAll sends sig to the process groups of all, and then to each process. A signal to a
// group also reaches processes that its members fork at this moment (kill(2) walks the group
// with forks locked out). A group of our own session that none of the processes leads may have
// strangers in it, so it gets no signal. signalAll returns the processes that it may not
// signal.
func signalAll(all []process, sig unix.Signal) (refused []process) {
	members := make(map[int]bool, len(all))
	for _, p := range all {
		members[p.pid] = true
	}
	done := make(map[int]bool)
	for _, p := range all {
		if !done[p.group] && p.group > 1 && (members[p.group] || p.session != ourSession()) && p.isStillThere() {
			done[p.group] = true
			if p.group == unix.Getpgrp() {
				leaveGroup()
			}
			_ = unix.Kill(-p.group, sig)
		}
	}
	for _, p := range all {
		if p.signal(sig) == unix.EPERM {
			refused = append(refused, p)
		}
	}
	return refused
}

// maxFreezes bounds the number of times that the family is frozen before it is killed. A family
// that grows faster than it can be listed is killed while it runs, again and again.
const maxFreezes = 20

// strike freezes the family and then kills it. It freezes first, because a running parent could
// replace a killed child. A process that was forked unseen is left for the next strike.
//
// Every ended child makes the lists longer, and a process that forks and ends again and again leaves
// thousands of them. So strike reaps them before each list, once the command has exited.
func (f *family) strike() (struck, refused []process) {
	frozen := make(map[int]bool)
	for range maxFreezes {
		if f.over {
			f.collect()
		}
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

// freeze stops all processes of the family. It returns those that ran, and those that we may not stop.
func (f *family) freeze() (frozen, refused []process) {
	known := make(map[int]bool) // frozen, or stopped by others before
	for round := range maxFreezes {
		all := f.list()
		grown := false
		for _, p := range all {
			if round == 0 && p.state == 'T' {
				known[p.pid] = true
			}
			if !known[p.pid] {
				known[p.pid], grown = true, true
				frozen = append(frozen, p)
			}
		}
		if !grown {
			break
		}
		refused = signalAll(all, unix.SIGSTOP)
	}
	return frozen, refused
}

// unseenPatience is the time after which end reports that it waits for processes that it cannot
// see.
const unseenPatience = time.Second

// end strikes until no process of the family is left, however long that takes. If a process has
// become another user and we may not kill it, end waits for it, and reports that once through
// say. An empty list proves nothing; reap decides.
func (f *family) end(say func(format string, args ...any)) {
	f.over = true
	warned := make(map[int]bool)
	unseen := time.Now()
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		struck, refused := f.strike()
		for _, p := range refused {
			if !warned[p.pid] {
				warned[p.pid] = true
				say("cannot kill process %d, left behind by the command: %v; waiting for its end", p.pid, unix.EPERM)
			}
		}
		if f.reap() && len(struck) == 0 {
			return
		}
		if len(struck) > 0 {
			unseen = time.Now()
		} else if time.Since(unseen) > unseenPatience {
			if f.zombies() {
				return // a debugger prevents us from reaping them
			}
			if !warned[0] {
				warned[0] = true
				say("processes that cannot be seen in /proc are left behind by the command; waiting for their end")
			}
		}
		awaitEnd(struck, pause)
	}
}

// awaitEnd waits until one of the processes has ended, for patience at most.
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
