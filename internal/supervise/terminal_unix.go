//go:build unix

package supervise

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is this process's controlling terminal, whose foreground belongs to one process
// group at a time: to ours, or lent to the job's.
type terminal struct {
	fd  int
	own int // our process group
	// wholly: stdin and stdout are terminals, so the job is given the foreground at
	// once. In a pipeline (holdfast run … | less) the other end is in our group and needs
	// the terminal itself; there the job gets it only when it asks, by being stopped.
	wholly bool
	lent   bool // the job may have had it
}

// openTerminal returns nil if there is no controlling terminal (cron, a service).
func openTerminal() *terminal {
	// Not os.Open, which would put the terminal into the runtime's poller.
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return &terminal{
		fd:     fd,
		own:    unix.Getpgrp(),
		wholly: isTerminal(os.Stdin) && isTerminal(os.Stdout),
	}
}

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

// lender is the process group that has the terminal and gives it to a job at once; 0 if the job
// has to ask for it.
func (t *terminal) lender() int {
	if t == nil || !t.wholly {
		return 0
	}
	return t.own
}

// lend gives the terminal to a job that has been started, if the lender still has it. From here
// on this process may be in the background of its terminal and has to take the terminal back all
// the same. The command has been started already and does not inherit that SIGTTOU is ignored.
func (t *terminal) lend(lender, job int) {
	if t == nil {
		return
	}
	signal.Ignore(syscall.SIGTTOU)
	if lender != 0 && t.foreground() == lender {
		t.give(job)
	}
}

// isLent takes note that another process has lent the terminal to the job.
func (t *terminal) isLent() {
	if t != nil {
		signal.Ignore(syscall.SIGTTOU)
		t.lent = t.wholly
	}
}

func (t *terminal) give(pgrp int) {
	t.lent = t.lent || pgrp != t.own
	_ = unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, pgrp) // fails if the job has just ended
}

// takeBack reports whether the job had the terminal. It leaves it alone when a third
// group has it: the shell's, if this is a background job. A group that is gone is one that
// the job had passed it on to.
func (t *terminal) takeBack(job int) bool {
	if t == nil {
		return false
	}
	fg := t.foreground()
	if fg != job && (!t.lent || unix.Kill(-fg, 0) != unix.ESRCH) {
		return false
	}
	t.give(t.own)
	return true
}

func (t *terminal) close() {
	if t != nil {
		_ = unix.Close(t.fd)
	}
}

// suspendSettle is how long pause waits for its own stop to take effect. In an orphaned
// process group (a container's first process, ssh -t HOST holdfast …) the kernel drops
// terminal stops, as nobody could continue us.
const suspendSettle = 200 * time.Millisecond

// pause does what the stop of the command asks for and reports whether the job is to be
// continued now. At a terminal there are two reasons for a stop. If the job wants the
// terminal, it gets it. If the user has pressed ctrl-Z, this process stops as well, so that
// the shell gets its prompt back, until the shell continues it. While it is stopped nobody
// proves the session and the lock may go; so first the whole group is stopped for sure.
// Without a terminal the stop is somebody's wish: CONT to this process is forwarded.
func (t *terminal) pause(sig syscall.Signal, job int) bool {
	if t == nil {
		return false
	}
	wantsTTY := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	if wantsTTY && (t.isOurs() || t.foreground() == job) {
		t.give(job)
		return true
	}
	_ = syscall.Kill(-job, syscall.SIGSTOP)
	had := t.takeBack(job)

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

	if (had || wantsTTY || t.wholly) && t.isOurs() {
		t.give(job)
	}
	return true
}
