//go:build unix && !linux

package main

// memoryMetrics adds nothing: only Linux reports these metrics.
func memoryMetrics(*exposition) {}
