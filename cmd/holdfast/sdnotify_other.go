//go:build !linux

package main

// monotonicMicroseconds is of use to systemd only, which is on Linux only.
func monotonicMicroseconds() int64 { return 0 }
