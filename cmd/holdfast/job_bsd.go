//go:build unix && !linux

package main

import (
	"syscall"
	"time"
)

// Linux-only, and missing here: the parent-death signal (kill -9 of holdfast leaves the
// command running, without the lock once the session has ended) and the sweep of
// processes that have left the process group with setsid.

func (j *job) startAndWait(started chan<- error) {
	err := j.cmd.Start()
	if err == nil {
		j.pid = j.cmd.Process.Pid
	}
	started <- err
	if err != nil {
		return
	}
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

// sweep kills what the command has left in its process group and returns when that is
// gone. The command is reaped already; its group's number stays taken while anybody is
// left in the group.
func (j *job) sweep(func(string, ...any)) {
	j.tty.takeBack(j.pid)
	j.tty.close()
	for syscall.Kill(-j.pid, syscall.SIGKILL) == nil {
		time.Sleep(5 * time.Millisecond) // their parent is init: nobody tells us when it has reaped them
	}
}
