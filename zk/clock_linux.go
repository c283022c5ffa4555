package zk

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleptBefore is CLOCK_BOOTTIME - CLOCK_MONOTONIC when the program began.
var sleptBefore, _ = bootMinusMonotonic()

func systemSlept() time.Duration {
	d, ok := bootMinusMonotonic()
	// Less is not a suspend but the time between two readings.
	if d -= sleptBefore; !ok || d < 10*time.Millisecond {
		return 0
	}
	return d
}

func bootMinusMonotonic() (time.Duration, bool) {
	var before, boot, after unix.Timespec
	for range 10 {
		if unix.ClockGettime(unix.CLOCK_MONOTONIC, &before) != nil ||
			unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
			unix.ClockGettime(unix.CLOCK_MONOTONIC, &after) != nil {
			return 0, false
		}
		// If we were held up in between, read again.
		if after.Nano()-before.Nano() < int64(time.Millisecond) {
			return time.Duration(boot.Nano() - before.Nano()), true
		}
	}
	return time.Duration(boot.Nano() - after.Nano()), true
}
