package supervise

import (
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A kin is a pipe that nobody writes to. A process and all its watchdogs have both ends of it. So a watchdog that has closed its
// write end reads the end of the pipe when the process and all other watchdogs have done so, too, or are dead.
type kin struct{ read, write int }

// newKin returns the kin of this process.
var newKin = sync.OnceValues(func() (kin, error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return kin{}, os.NewSyscallError("pipe2", err)
	}
	return kin{fds[0], fds[1]}, nil
})

// inherit takes the kin whose descriptors are in the arguments of a watchdog.
func (k *kin) inherit(args []string) (err error) {
	if k.read, err = strconv.Atoi(args[0]); err == nil {
		k.write, err = strconv.Atoi(args[1])
	}
	unix.CloseOnExec(k.read)
	unix.CloseOnExec(k.write)
	return err
}

// last waits until the supervisor and its other watchdogs, with their jobs, are gone. It returns false if they are not by
// then.
func (k kin) last(patience time.Duration) bool {
	_ = unix.Close(k.write)
	fds := []unix.PollFd{{Fd: int32(k.read)}}
	for end := clock() + patience; ; {
		n, err := unix.Poll(fds, int(max(end-clock(), 0)/time.Millisecond))
		if err != unix.EINTR {
			return err == nil && n == 1 && fds[0].Revents&unix.POLLHUP != 0
		}
	}
}
