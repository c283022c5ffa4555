//go:build unix

package supervise

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lostVariable has the number of the descriptor that ends when the lock is lost or in doubt.
const lostVariable = "HOLDFAST_LOST_FD"

// A lostPipe tells the job that the lock is lost or in doubt. The job inherits the reading end. The
// writing end is closed then, and also if this process dies.
type lostPipe struct {
	read, write int // -1 once closed
	number      int // of the reading end in the job
}

func newLostPipe() (*lostPipe, error) {
	// Not os.Pipe: its ends do not block, and the job shares that mode.
	var ends [2]int
	syscall.ForkLock.RLock()
	err := unix.Pipe(ends[:])
	if err == nil {
		unix.CloseOnExec(ends[0])
		unix.CloseOnExec(ends[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("pipe", err)
	}
	return &lostPipe{read: ends[0], write: ends[1], number: firstFree()}, nil
}

// firstFree returns the lowest number, from 3 on, at which the job inherits no descriptor. Some shells
// know descriptors below 10 only.
func firstFree() int {
	for fd := 3; ; fd++ {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err != nil || flags&unix.FD_CLOEXEC != 0 {
			return fd
		}
	}
}

// files returns the descriptors of the job by their numbers, up to the reading end. Those between
// standard error and the reading end are inherited ones.
func (p *lostPipe) files() []uintptr {
	files := []uintptr{0, 1, 2}
	for len(files) < p.number {
		files = append(files, uintptr(len(files)))
	}
	return append(files, uintptr(p.read))
}

// env returns the job's environment with the number. An outer holdfast may have set another one.
func (p *lostPipe) env(env []string) []string {
	rest := slices.DeleteFunc(slices.Clone(env), func(v string) bool { return strings.HasPrefix(v, lostVariable+"=") })
	return append(rest, lostVariable+"="+strconv.Itoa(p.number))
}

// started closes the reading end, after the start of the job.
func (p *lostPipe) started() { closeOnce(&p.read) }

func (p *lostPipe) end() { closeOnce(&p.write) }

func closeOnce(fd *int) {
	if *fd >= 0 {
		_ = unix.Close(*fd)
		*fd = -1
	}
}
