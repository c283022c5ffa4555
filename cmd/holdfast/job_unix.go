//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// job is a running command with its process group, in the sense of a shell's job control.
// Its methods are called by one goroutine, the supervisor's; the goroutine that waits for
// the processes ends when exited is closed.
type job struct {
	cmd     *exec.Cmd
	pid     int // of the command, and the number of its process group
	tty     *terminal
	exited  chan struct{}       // closed when the command has exited
	stopped chan syscall.Signal // the command was stopped by this signal
	status  syscall.WaitStatus  // valid after sweep
	others  map[int]bool        // children that this process had before; Linux only
}

// startJob starts cmd as the leader of a process group of its own, so that signals and
// KILL reach also what a shell in between has started. At a terminal the group becomes
// the foreground one: else the command could not read from it.
//
// The terminal is handed over after the start, not by SysProcAttr.Foreground: that needs
// SIGTTOU ignored during the fork, and the command would inherit this for life. If the
// command is quick enough to touch the terminal before it has it, it is stopped by
// SIGTTIN or SIGTTOU, and pause puts that right.
func startJob(cmd *exec.Cmd) (*job, error) {
	j := &job{cmd: cmd, exited: make(chan struct{}), stopped: make(chan syscall.Signal, 1)}
	j.tty = openTerminal()
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	started := make(chan error)
	go j.startAndWait(started)
	if err := <-started; err != nil {
		j.tty.close()
		return nil, err
	}
	if j.tty != nil {
		// From here on this process may be in the background of its terminal and has to
		// write messages and to take the terminal back all the same. The command has
		// been started already and does not inherit this.
		signal.Ignore(syscall.SIGTTOU)
		if j.tty.wholly && j.tty.isOurs() {
			j.tty.give(j.pid)
		}
	}
	return j, nil
}

// signal sends sig to the whole group. The group's number cannot have been given to
// others: the command is not reaped before sweep.
func (j *job) signal(sig os.Signal) {
	if s, ok := sig.(syscall.Signal); ok {
		_ = syscall.Kill(-j.pid, s) // ESRCH or EPERM: nothing there, or nothing that we may signal
	}
}

// terminate asks the group to stop. CONT, because a stopped process would not hear it.
func (j *job) terminate() {
	j.signal(syscall.SIGTERM)
	j.signal(syscall.SIGCONT)
}

func (j *job) kill()   { j.signal(syscall.SIGKILL) }
func (j *job) resume() { j.signal(syscall.SIGCONT) }

// code is the exit code for a shell. Only after sweep.
func (j *job) code() int {
	if j.status.Signaled() {
		return 128 + int(j.status.Signal())
	}
	return j.status.ExitStatus()
}

// suspendSettle is how long pause waits for its own stop to take effect. In an orphaned
// process group (a container's first process, ssh -t HOST holdfast …) the kernel drops
// terminal stops, as nobody could continue us.
const suspendSettle = 200 * time.Millisecond

// pause does what the stop of the command asks for and reports whether the job should be
// continued now. At a terminal: hand it over, if that is what the job was stopped for; else
// (ctrl-Z) stop ourselves too, so that the shell gets its prompt back, until the shell
// continues us. While we are stopped nobody proves the session and the lock may go; so
// first the whole group is stopped for sure, and the caller looks at the deadline before
// it continues the group. Without a terminal the stop is somebody's wish: CONT to this
// process is forwarded.
func (j *job) pause(sig syscall.Signal) bool {
	if j.tty == nil {
		return false
	}
	wantsTTY := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	if wantsTTY && (j.tty.isOurs() || j.tty.foreground() == j.pid) {
		j.tty.give(j.pid)
		return true
	}
	j.signal(syscall.SIGSTOP)
	had := j.tty.takeBack(j.pid)

	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	// The whole group: a script that runs us, a pipe's other end. TTIN stops as TSTP does;
	// but for TSTP we have a handler (ctrl-Z in a pipeline comes to us, and the job must be
	// stopped first), and os/signal cannot take one away again: Reset leaves a handler that
	// does nothing.
	_ = syscall.Kill(0, syscall.SIGTTIN)
	select {
	case <-continued:
	case <-time.After(suspendSettle):
	}

	if (had || wantsTTY || j.tty.wholly) && j.tty.isOurs() {
		j.tty.give(j.pid)
	}
	return true
}
