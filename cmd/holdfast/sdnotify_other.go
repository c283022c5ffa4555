//go:build !linux

package main

// monotonicMicroseconds returns 0: only systemd needs it, on Linux.
func monotonicMicroseconds() int64 { return 0 }
