//go:build !linux

package daemon

// monotonicMicroseconds returns 0: only systemd needs it, on Linux.
func monotonicMicroseconds() int64 { return 0 }
