package zk

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleptBefore is CLOCK_BOOTTIME - CLOCK_MONOTONIC when the program began.
var sleptBefore, _ = bootMinusMonotonic(0)

// asleep is the shortest difference that is a suspend, and not the time between two
// readings.
const asleep = 10 * time.Millisecond

func systemSlept() time.Duration {
	d, ok := bootMinusMonotonic(sleptBefore + asleep)
	if d -= sleptBefore; !ok || d < asleep {
		return 0
	}
	return d
}

// bootMinusMonotonic is exact, but for a difference below enough: that it may only seem
// too large then, by the time between two readings, and a third is saved. It is asked
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
		// If we were held up in between, read again.
		if after.Nano()-before.Nano() < int64(time.Millisecond) {
			return time.Duration(boot.Nano() - before.Nano()), true
		}
	}
	return time.Duration(boot.Nano() - after.Nano()), true
}
