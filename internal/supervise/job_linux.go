package supervise

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A job is a running command with all its descendants. This process is the command's parent and
// a subreaper, so orphans of the command become our children, not init's. One goroutine calls
// the methods. The goroutine that waits for processes ends when exited is closed.
type job struct {
	pid     int // of the command, and of its process group
	cgroup  *cgroup
	family  *family
	exited  chan struct{}       // closed when the command has exited
	stopped chan syscall.Signal // the command was stopped by this signal
	status  syscall.WaitStatus  // valid when exited is closed
	reaped  bool                // the command
	joined  bool                // this process is in the command's process group
	frozen  []process           // that freeze has stopped
}

const getTermios, setTermios = unix.TCGETS, unix.TCSETS

// becomeSubreaper makes this process the parent of its orphaned descendants.
func becomeSubreaper() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
}

// startJob starts a command as the leader of its own process group, and in a cgroup if cg is
// not nil. It calls lend to give the command the terminal.
//
// The command gets the terminal after the start and not by SysProcAttr.Foreground. That needs
// SIGTTOU ignored during the fork, and the command would inherit this for life. If the command
// uses the terminal before it has it, SIGTTIN or SIGTTOU stops it, and the supervisor's pause
// continues it.
func startJob(c Command, lost *lostPipe, family *family, cg *cgroup, lend func(*job)) (*job, error) {
	j := &job{cgroup: cg, family: family, exited: make(chan struct{}), stopped: make(chan syscall.Signal, 1)}
	started := make(chan error)
	go j.startAndWait(c, lost, lend, started)
	return j, <-started
}

// startAndWait starts the command, reports that, and then waits for it on the same thread.
// Linux sends the parent-death signal when the *thread* that forked ends (go.dev/issue/27505),
// so this goroutine owns its thread until the command has exited. The signal matters when this
// process and the supervisor die together.
func (j *job) startAndWait(c Command, lost *lostPipe, lend func(*job), started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := &syscall.ProcAttr{
		Env:   lost.env(c.Env),
		Files: lost.files(), // inherited descriptors are not close-on-exec, so the command gets them, too
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	pid, err := j.forkInto(c, attr)
	if err != nil && j.cgroup != nil {
		// Possible causes: a seccomp filter without clone3, or a cgroup that takes no
		// processes.
		j.cgroup.remove(removePatience)
		j.cgroup = nil
		pid, err = j.forkInto(c, attr)
	}
	if j.pid = pid; err == nil {
		lend(j) // at once: keys pressed from now on are for the job
	}
	started <- err
	if err != nil {
		return
	}
	j.wait()
	close(j.exited)
}

// forkInto starts the command, in the cgroup if there is one.
func (j *job) forkInto(c Command, attr *syscall.ProcAttr) (pid int, err error) {
	attr.Sys.UseCgroupFD = j.cgroup != nil
	if j.cgroup != nil {
		dir, err := j.cgroup.open()
		if err != nil {
			return 0, err
		}
		defer dir.Close()
		attr.Sys.CgroupFD = int(dir.Fd())
	}
	return syscall.ForkExec(c.Path, c.Args, attr)
}

// wait returns when the command has exited, and does not reap it. While the zombie exists, the
// kernel does not reuse the number of its process group, so we can still send signals to it.
// wait reaps orphans that have become our children.
func (j *job) wait() {
	for {
		e, err := waitID(unix.P_ALL, 0, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT)
		switch {
		case err != nil: // ECHILD: the command has been reaped elsewhere
			return
		case e.code == cldStopped:
			if s, err := waitID(unix.P_PID, e.pid, unix.WSTOPPED|unix.WNOHANG); err == nil && s.pid == j.pid {
				select {
				case j.stopped <- syscall.Signal(s.status):
				default: // an earlier stop is not handled yet; its handling covers this one
				}
			}
		case e.pid == j.pid:
			j.status = e.waitStatus()
			return
		default:
			_, _ = waitID(unix.P_PID, e.pid, unix.WEXITED|unix.WNOHANG)
		}
	}
}

// signal sends sig to the command's process group, as a terminal would, or to the command alone
// if it has left the group. Once the command is reaped, its group's number may be another's, so
// the leftover processes get the signal one by one.
func (j *job) signal(sig os.Signal) {
	s, ok := sig.(syscall.Signal)
	switch {
	case !ok:
	case j.reaped:
		for _, p := range j.family.list() {
			_ = p.signal(s)
		}
	default:
		if j.joined {
			leaveGroup()
		}
		if unix.Kill(-j.pid, s) == unix.ESRCH {
			_ = unix.Kill(j.pid, s)
		}
		if j.joined {
			j.join()
		}
	}
}

// join puts this process into the command's process group, where it gets the keys of a terminal as the command does. So
// it can relay them. Signals that this process sends to the group must not reach itself: see leaveGroup.
func (j *job) join() { j.joined = unix.Setpgid(0, j.pid) == nil }

// leaveGroup puts this process into a process group of its own.
func leaveGroup() { _ = unix.Setpgid(0, 0) }

// terminate asks all processes of the job to stop, as systemd does. It sends CONT after sig,
// because a stopped process would not handle sig.
//
// The process group comes first. Listing the other processes can take long, or for ever if one
// of them hangs in the kernel.
func (j *job) terminate(sig syscall.Signal) {
	j.signal(sig)
	j.signal(unix.SIGCONT)
	if j.reaped {
		return // all of them have it
	}
	all := j.family.list()
	for _, sig := range []unix.Signal{sig, unix.SIGCONT} {
		for _, p := range all {
			if p.group != j.pid {
				_ = p.signal(sig)
			}
		}
	}
}

// freeze stops all processes of the job. thaw continues those that freeze has stopped.
func (j *job) freeze(say func(format string, args ...any)) {
	frozen, refused := j.family.freeze()
	j.frozen = frozen
	for _, p := range refused {
		say("cannot suspend process %d of the command: %v; it runs on", p.pid, unix.EPERM)
	}
}

func (j *job) thaw() {
	for _, p := range j.frozen {
		_ = p.signal(unix.SIGCONT)
	}
	j.frozen = nil
	if j.joined {
		j.join() // freeze has left the group
	}
}

// leftovers reports whether the command has left processes behind, after its exit. If so, next is closed
// when one of our children has ended. It reaps those that have, the command too.
func (j *job) leftovers() (some bool, next <-chan struct{}) {
	j.reaped, j.family.over = true, true
	// The list finds out whether processes are spared.
	if j.family.collect() || len(j.family.list()) == 0 && j.family.reap() {
		return false, nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = waitID(unix.P_ALL, 0, unix.WEXITED|unix.WNOWAIT|unix.WALL)
	}()
	return true, ended
}

// kill kills all processes of the job, except those that start at this moment: sweep kills
// them.
func (j *job) kill() {
	_ = j.cgroup.kill()
	j.signal(unix.SIGKILL)
	j.family.strike()
}

// resume continues the job after a stop by sig. If the job had stopped to ask for the terminal,
// and the user has pressed ctrl-Z since, resume stops it again: CONT alone would discard that
// key.
func (j *job) resume(sig syscall.Signal) {
	asked := sig == unix.SIGTTIN || sig == unix.SIGTTOU
	key := asked && j.pending(unix.SIGTSTP)
	j.signal(unix.SIGCONT)
	if key {
		j.signal(unix.SIGTSTP)
	}
}

// pending reports whether a signal to the command is pending.
func (j *job) pending(sig unix.Signal) bool {
	status, err := readProc(fmt.Sprintf("/proc/%d/status", j.pid), make([]byte, 4096))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		if name != "SigPnd" && name != "ShdPnd" {
			continue
		}
		set, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err == nil && set&(1<<(sig-1)) != 0 {
			return true
		}
	}
	return false
}

// sweep kills leftover processes, and returns when nothing is left of the job. Then the lock
// may be released. If tell is set, it says which processes they are.
func (j *job) sweep(say func(format string, args ...any), tell bool) {
	j.reaped = true
	if j.joined {
		leaveGroup()
	}
	// Mostly nothing is left. Then sweep does not use /proc/self/task: the kernel caches each
	// name that was looked up there, and drops them slowly when this process is reaped.
	if j.family.reap() && j.cgroup.removeEmpty() {
		return
	}
	if left := j.family.list(); tell && len(left) > 0 {
		say("%s", describe(left))
	}
	_ = j.cgroup.kill()
	j.family.end(say)
	j.cgroup.remove(removePatience)
}

// maxNamed is the number of leftover processes that are named.
const maxNamed = 8

// describe says which processes are killed.
func describe(left []process) string {
	text := "killing 1 process that the command left behind: "
	if len(left) > 1 {
		text = fmt.Sprintf("killing %d processes that the command left behind: ", len(left))
	}
	for i, p := range left {
		if i == maxNamed {
			return fmt.Sprintf("%s and %d more", text, len(left)-i)
		}
		if i > 0 {
			text += ", "
		}
		name, _ := readProc(fmt.Sprintf("/proc/%d/comm", p.pid), make([]byte, 64))
		text += fmt.Sprintf("%d (%s)", p.pid, strings.TrimSuffix(string(name), "\n"))
	}
	return text
}

func (j *job) killer() int { return killer(j.status) }

// A child is a process that this process has started. It is safe for concurrent use. It is not
// an os.Process, because package os forks once more to detect features of the kernel.
type child struct {
	Pid int

	mu    sync.Mutex // guards ended
	ended bool       // it is reaped, and another process may have its number
}

// Signal sends a signal, unless the child has been reaped.
func (c *child) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return os.ErrProcessDone
	}
	return unix.Kill(c.Pid, sig)
}

// wait waits for the end of the child and reaps it. Another goroutine may reap it first.
func (c *child) wait() {
	_, _ = waitID(unix.P_PID, c.Pid, unix.WEXITED|unix.WNOWAIT)
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = waitID(unix.P_PID, c.Pid, unix.WEXITED|unix.WNOHANG)
	c.ended = true
}

// The outcomes of a child that waitid(2) reports; the numbers are those of <signal.h>.
const (
	cldExited  = 1
	cldKilled  = 2
	cldDumped  = 3
	cldStopped = 5
)

type childEvent struct{ code, pid, status int }

// waitStatus returns the status as wait(2) would report it.
func (e childEvent) waitStatus() syscall.WaitStatus {
	switch e.code {
	case cldExited:
		return syscall.WaitStatus(e.status << 8)
	case cldDumped:
		return syscall.WaitStatus(e.status | 0x80)
	}
	return syscall.WaitStatus(e.status)
}

func waitID(idType, id, options int) (childEvent, error) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(idType, id, &info, options, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return childEvent{}, err
		}
		// The part of siginfo_t that package unix leaves opaque. The empty array aligns the
		// rest like the kernel's union: to the size of a pointer.
		child := (*struct {
			_      [3]int32
			_      [0]uintptr
			pid    int32
			uid    uint32
			status int32
		})(unsafe.Pointer(&info))
		return childEvent{code: int(info.Code), pid: int(child.pid), status: int(child.status)}, nil
	}
}

// killer returns the number of the signal that killed the command, or 0.
func killer(status syscall.WaitStatus) int {
	if status.Signaled() {
		return int(status.Signal())
	}
	return 0
}

// code returns the exit code as a shell reports it.
func code(status syscall.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// parentOf returns the parent of a process, or 0.
func parentOf(pid int) int {
	p, _ := readProcess(pid)
	return p.parent
}
