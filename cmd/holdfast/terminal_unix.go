//go:build unix

package main

import (
	"os"

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
	lent   bool // given at least once
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
