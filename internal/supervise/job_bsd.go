//go:build unix && !linux

package supervise

import (
	"os"
	"syscall"
	"time"
)

// A job is a running command with its process group. Processes that have left the group are
// not known. The job outlives this process if this process is killed.
type job struct {
	pid     int                 // of the command, and the number of its process group
	exited  chan struct{}       // closed when the command has exited
	stopped chan syscall.Signal // the command was stopped by this signal
	status  syscall.WaitStatus  // valid when exited is closed
}

// startJob starts a command as the leader of a process group of its own.
func startJob(c Command) (*job, error) {
	pid, err := syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{
		Env: c.Env, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
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
			default: // an earlier stop is still to be dealt with, and that deals with this one
			}
		default:
			return
		}
	}
}

// signal sends sig to the group; to the command alone if it has left the group.
func (j *job) signal(sig os.Signal) {
	if s, ok := sig.(syscall.Signal); ok && syscall.Kill(-j.pid, s) == syscall.ESRCH && !isClosed(j.exited) {
		_ = syscall.Kill(j.pid, s)
	}
}

// terminate asks the group to stop. CONT, because a stopped process would not hear it.
func (j *job) terminate() {
	j.signal(syscall.SIGTERM)
	j.signal(syscall.SIGCONT)
}

func (j *job) kill()                 { j.signal(syscall.SIGKILL) }
func (j *job) resume(syscall.Signal) { j.signal(syscall.SIGCONT) }

// sweep kills what the command has left in its process group and returns when that is
// gone. The command is reaped already; its group's number stays taken while anybody is
// left in the group.
func (j *job) sweep(func(string, ...any)) {
	for syscall.Kill(-j.pid, syscall.SIGKILL) == nil {
		time.Sleep(5 * time.Millisecond) // their parent is init: nobody tells us when it has reaped them
	}
}

// code is the exit code for a shell.
func (j *job) code() int {
	if j.status.Signaled() {
		return 128 + int(j.status.Signal())
	}
	return j.status.ExitStatus()
}
