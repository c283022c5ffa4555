//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is this process's controlling terminal. Its foreground belongs to one process group
// at a time: ours, or, if lent, the job's.
type terminal struct {
	fd  int
	own int // our process group
	// wholly: stdin and stdout are terminals, so the job gets the foreground at once. In a
	// pipeline (holdfast run … | less) the other end is in our group and needs the terminal
	// itself. There the job gets the terminal only when it asks for it, by being stopped.
	wholly bool
	lent   bool          // the job may have had it
	script int           // our parent, if it is in our process group
	shell  int           // the process group of the shell that has started the script
	modes  *unix.Termios // before the job had it; nil if they are not known
}

// openTerminal returns nil if there is no controlling terminal (cron, a service).
func openTerminal() *terminal {
	// Not os.Open, which would put the terminal into the runtime's poller.
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	t := &terminal{
		fd:     fd,
		own:    unix.Getpgrp(),
		wholly: isTerminal(os.Stdin) && isTerminal(os.Stdout),
	}
	if parent := unix.Getppid(); groupOf(parent) == t.own {
		t.script, t.shell = parent, shellAbove(parent, t.own)
	}
	t.saveModes()
	return t
}

func (t *terminal) saveModes() { t.modes, _ = unix.IoctlGetTermios(t.fd, getTermios) }

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil
}

func (t *terminal) foreground() int {
	pgrp, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return pgrp
}

func (t *terminal) isOurs() bool { return t.foreground() == t.own }

// lender returns the process group that gives the terminal to a job at once, 0 if the job has to ask for it, or -1 if
// the job never gets it. asks reports whether a job that asks now gets it.
func (t *terminal) lender() (group int, asks bool) {
	if t == nil {
		return -1, false
	}
	if t.wholly {
		group = t.own
	}
	return group, t.isOurs()
}

// lend gives the terminal to a started job, if the lender still has it. From then on this
// process may be in the background of its terminal and must be able to take the terminal back,
// so lend ignores SIGTTOU. The command has been started already and does not inherit that.
func (t *terminal) lend(lender, job int) {
	if t == nil {
		return
	}
	signal.Ignore(syscall.SIGTTOU)
	if lender > 0 && t.foreground() == lender {
		t.give(job)
	}
}

// isLent records that another process has lent the terminal to the job.
func (t *terminal) isLent() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
		t.lent = t.wholly
	}
}

func (t *terminal) give(pgrp int) {
	if !t.lent && pgrp != t.own {
		t.lent = true
		t.saveModes()
	}
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp) // fails if the job has just ended
}

// takeBack takes the terminal back from the job, and reports whether the job had it. If a third
// group has the terminal, takeBack leaves it alone: it is the shell's group, if this is a
// background job. If that group no longer exists, the job had passed the terminal on to it.
//
// A key can end the script that we are in, too. Then the shell takes the terminal itself, at any moment from now on, and
// must have it in the end. A shell that finds itself in the background exits.
func (t *terminal) takeBack(job int) bool {
	if t == nil {
		return false
	}
	fg := t.foreground()
	if fg != job && (!t.lent || unix.Kill(-fg, 0) != unix.ESRCH) {
		return false
	}
	if t.scriptHasEnded() {
		return false
	}
	t.give(t.own)
	if t.scriptHasEnded() { // just now: the shell may have had the terminal already, and lost it to us
		t.give(t.shell)
		return false
	}
	return true
}

// scriptHasEnded reports whether our parent, a script, has ended. The shell learns that later than we do.
func (t *terminal) scriptHasEnded() bool { return t.script != 0 && unix.Getppid() != t.script }

// groupOf returns the process group of a process, or 0.
func groupOf(pid int) int {
	group, err := unix.Getpgid(pid)
	if err != nil {
		return 0
	}
	return group
}

// shellAbove returns the process group of the process that has started a script: the nearest ancestor outside of the
// script's group. If it cannot be found, it is the leader of the session.
func shellAbove(script, group int) int {
	for pid := parentOf(script); pid > 1; pid = parentOf(pid) {
		if g := groupOf(pid); g != group {
			return g
		}
	}
	leader, _ := unix.Getsid(0)
	return groupOf(leader)
}

// end takes the terminal back from a job whose command has ended with status, and reports whether the job had it. A
// command that was killed may have left it without echo, as a prompt for a password does, so end restores its modes. (A
// command that exits, such as stty, means to leave them.)
func (t *terminal) end(job int, status syscall.WaitStatus) (had bool) {
	had = t.takeBack(job)
	if had && status.Signaled() && t.modes != nil {
		_ = unix.IoctlSetTermios(t.fd, setTermios, t.modes)
	}
	return had
}

func (t *terminal) close() {
	if t != nil {
		_ = unix.Close(t.fd)
	}
}

// suspendSettle is the time that pause waits for its own stop to take effect. In an orphaned
// process group (a container's first process, ssh -t HOST holdfast …) the kernel drops terminal
// stops, because no shell could continue us.
const suspendSettle = 200 * time.Millisecond

// pause handles a stop of the command, and reports whether the job must be continued now. At a
// terminal there are two reasons for a stop. If the job wants the terminal, it gets it. If the
// user has pressed ctrl-Z, this process stops as well, so that the shell shows its prompt,
// until the shell continues it. While it is stopped the session is not proven and the lock may
// be lost, so pause first stops the whole job's group for certain, by stop. Without a terminal the stop is
// deliberate: a CONT to this process is forwarded.
func (t *terminal) pause(sig syscall.Signal, job int, stop func()) bool {
	if t == nil {
		return false
	}
	wantsTTY := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	if wantsTTY && (t.isOurs() || t.foreground() == job) {
		t.give(job)
		return true
	}
	stop()
	had := t.takeBack(job)

	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	// The signal goes to our whole group: a script that runs us, the other end of a pipe.
	stopGroup(sig)
	select {
	case <-continued:
	case <-time.After(suspendSettle):
	}

	if (had || wantsTTY || t.wholly) && t.isOurs() {
		t.give(job)
	}
	return true
}
