//go:build unix && !linux

package supervise

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A job is a running command with its process group. Processes that have left the group are not
// found. If this process is killed, the job goes on.
type job struct {
	pid     int                 // of the command, and the number of its process group
	exited  chan struct{}       // closed when the command has exited
	stopped chan syscall.Signal // the command was stopped by this signal
	status  syscall.WaitStatus  // valid when exited is closed
}

// startJob starts a command as the leader of a process group of its own.
func startJob(c Command, lost *lostPipe) (*job, error) {
	pid, err := syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{
		Env: lost.env(c.Env), Files: lost.files(), Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, err
	}
	j := &job{pid: pid, exited: make(chan struct{}), stopped: make(chan syscall.Signal, 1)}
	go j.wait()
	return j, nil
}

func (j *job) wait() {
	defer close(j.exited)
	for {
		_, err := syscall.Wait4(j.pid, &j.status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return
		case j.status.Stopped():
			select {
			case j.stopped <- j.status.StopSignal():
			default: // an earlier stop is not handled yet; its handling covers this one
			}
		default:
			return
		}
	}
}

// signal sends sig to the group, or to the command alone if it has left the group.
func (j *job) signal(sig os.Signal) {
	if s, ok := sig.(syscall.Signal); ok && syscall.Kill(-j.pid, s) == syscall.ESRCH && !isClosed(j.exited) {
		_ = syscall.Kill(j.pid, s)
	}
}

// terminate asks the group to stop. It sends CONT after sig, because a stopped process would
// not handle sig.
func (j *job) terminate(sig syscall.Signal) {
	j.signal(sig)
	j.signal(syscall.SIGCONT)
}

// freeze stops the group, and thaw continues it.
func (j *job) freeze(func(string, ...any)) { j.signal(syscall.SIGSTOP) }
func (j *job) thaw()                       { j.signal(syscall.SIGCONT) }

// leftovers reports whether processes are left in the command's process group, after its exit. If so,
// next is closed when it is time to look again: their parent is init, so we must poll.
func (j *job) leftovers() (some bool, next <-chan struct{}) {
	if syscall.Kill(-j.pid, 0) == syscall.ESRCH {
		return false, nil
	}
	again := make(chan struct{})
	time.AfterFunc(20*time.Millisecond, func() { close(again) })
	return true, again
}

func (j *job) kill()                 { j.signal(syscall.SIGKILL) }
func (j *job) resume(syscall.Signal) { j.signal(syscall.SIGCONT) }

// sweep kills leftover processes in the command's process group, and returns when they are
// gone. The command is reaped already, but the kernel does not reuse the group's number while a
// process is left in the group.
func (j *job) sweep(say func(string, ...any), tell bool) {
	for syscall.Kill(-j.pid, syscall.SIGKILL) == nil {
		if tell {
			tell = false
			say("killing processes that the command left behind in its process group, %d", j.pid)
		}
		time.Sleep(5 * time.Millisecond) // their parent is init, so we must poll until it has reaped them
	}
}

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA

func (j *job) waitStatus() syscall.WaitStatus { return j.status }

// killer returns the number of the signal that killed the command, or 0.
func (j *job) killer() int {
	if j.status.Signaled() {
		return int(j.status.Signal())
	}
	return 0
}

// code returns the exit code as a shell reports it.
func (j *job) code() int {
	if j.status.Signaled() {
		return 128 + int(j.status.Signal())
	}
	return j.status.ExitStatus()
}

// parentOf returns 0: only Linux says it in a file.
func parentOf(int) int { return 0 }
