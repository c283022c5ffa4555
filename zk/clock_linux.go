package zk

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleptBefore is CLOCK_BOOTTIME - CLOCK_MONOTONIC when the program began.
var sleptBefore, _ = bootMinusMonotonic(0)

// asleep is the shortest difference that counts as a suspend. A shorter one may be the time
// between two readings.
const asleep = 10 * time.Millisecond

func systemSlept() time.Duration {
	d, ok := bootMinusMonotonic(sleptBefore + asleep)
	if d -= sleptBefore; !ok || d < asleep {
		return 0
	}
	return d
}

// bootMinusMonotonic returns CLOCK_BOOTTIME - CLOCK_MONOTONIC. A result below enough may be too
// large by the time between two readings; this saves a third of the system calls. It is called
// several times for each request.
func bootMinusMonotonic(enough time.Duration) (time.Duration, bool) {
	var before, boot, after unix.Timespec
	for range 10 {
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
			return 0, false
		}
		if d := time.Duration(boot.Nano() - before.Nano()); d < enough {
			return d, true
		}
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0, false
		}
		// If we were delayed between the readings, read again.
		if after.Nano()-before.Nano() < int64(time.Millisecond) {
			return time.Duration(boot.Nano() - before.Nano()), true
		}
	}
	return time.Duration(boot.Nano() - after.Nano()), true
}
