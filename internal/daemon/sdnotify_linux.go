package daemon

import "golang.org/x/sys/unix"

// monotonicMicroseconds returns the clock by which systemd distinguishes reloads.
func monotonicMicroseconds() int64 {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail for this clock
	return now.Nano() / 1000
}
