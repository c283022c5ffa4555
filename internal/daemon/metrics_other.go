//go:build !unix

package daemon

// processMetrics adds nothing: only the start time is known here.
func processMetrics(*Exposition) {}
