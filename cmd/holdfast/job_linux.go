package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// startAndWait starts the command, reports that on started, and then waits for it on the
// same thread: Linux sends the parent-death signal when the *thread* that forked ends
// (go.dev/issue/27505), so this goroutine owns its thread until the command has exited.
// Pdeathsig covers kill -9 of this process: the command does not outlive the session.
func (j *job) startAndWait(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	j.cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	// Orphans of the job come to us instead of init: sweep finds what has left the
	// process group with setsid, and sees for itself that all is gone.
	_ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
	// Whoever exec'ed us may have had children; in bash, exec holdfast run … > >(logger).
	j.others = make(map[int]bool)
	for _, pid := range children() {
		j.others[pid] = true
	}
	err := j.cmd.Start()
	if err == nil {
		j.pid = j.cmd.Process.Pid
	}
	started <- err
	if err != nil {
		return
	}
	j.wait()
	close(j.exited)
}

// wait returns when the command has exited, and does not reap it: as long as the zombie is
// there, its process group's number cannot be given to others, and sweep may kill by it.
// Orphans that came to us meanwhile are reaped.
func (j *job) wait() {
	for {
		e, err := waitID(unix.P_ALL, 0, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT)
		switch {
		case err != nil: // ECHILD: somebody else reaped it; nothing more to see
			return
		case e.code == cldStopped:
			if s, err := waitID(unix.P_PID, e.pid, unix.WSTOPPED|unix.WNOHANG); err == nil && s.pid == j.pid {
				select {
				case j.stopped <- syscall.Signal(s.status):
				default: // an earlier stop is still to be dealt with, and that deals with this one
				}
			}
		case e.pid == j.pid:
			return
		default:
			_, _ = waitID(unix.P_PID, e.pid, unix.WEXITED|unix.WNOHANG)
			delete(j.others, e.pid) // the number may be given to a process of the job
		}
	}
}

// sweep kills what the command has left behind and returns when it is gone; then the
// lock may be released. First the process group, then, as systemd does for a service,
// whatever else descends from the command: killing a process makes its children ours,
// so this ends when we have no child but those we had before. It waits as long as it takes for a process that we
// may not kill (one that has become another user): the lock guards against it, too.
func (j *job) sweep(warn func(string, ...any)) {
	j.kill()
	_ = j.cmd.Wait() // the zombie; its error is its exit code
	if ws, ok := j.cmd.ProcessState.Sys().(syscall.WaitStatus); ok {
		j.status = ws
	}
	j.tty.takeBack(j.pid)
	j.tty.close()
	warned := make(map[int]bool)
	for {
		left := children()
		left = slices.DeleteFunc(left, func(pid int) bool { return j.others[pid] })
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			// An unreaped child of ours: the number is still its own.
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH && !warned[pid] {
				warned[pid] = true
				warn("cannot kill process %d, left behind by the command: %v; the lock is held until it ends", pid, err)
			}
		}
		_, _ = waitID(unix.P_PID, left[0], unix.WEXITED)
	}
}

// children lists the children of this process, alive or zombie, but not a file:// store's host
// that it has started: that one serves others too. Where the kernel does not tell
// (CONFIG_PROC_CHILDREN is not set) only the process group was swept.
func children() []int {
	hostStart.Lock() // a host in the middle of its start does not yet look like one
	defer hostStart.Unlock()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil
	}
	var pids []int
	for _, t := range threads {
		list, err := os.ReadFile("/proc/self/task/" + t.Name() + "/children")
		if err != nil {
			continue // a thread that has just ended; its children are another thread's now
		}
		for _, f := range strings.Fields(string(list)) {
			if pid, err := strconv.Atoi(f); err == nil && !isHost(pid) {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// isHost recognises the detached host of a file:// store by its command line; it may have
// been started by a holdfast that the command ran.
func isHost(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return false
	}
	args := bytes.Split(line, []byte{0})
	return len(args) > 2 && string(args[1]) == "serve" && string(args[2]) == detachedFlag
}

const cldStopped = 5 // CLD_STOPPED in <signal.h>

type childEvent struct{ code, pid, status int }

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
		// The part of siginfo_t that package unix leaves opaque. The empty array aligns
		// what follows as the kernel's union is: to the size of a pointer.
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
