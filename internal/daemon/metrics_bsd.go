//go:build unix && !linux

package daemon

// memoryMetrics adds nothing: only Linux reports these metrics.
func memoryMetrics(*Exposition) {}
