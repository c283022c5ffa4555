package zkserver

import (
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the processor time of this thread, which other processes do not affect. The
// goroutine must be locked to its thread.
func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}
