//go:build !unix

package main

// processMetrics adds nothing: only the start time is known.
func processMetrics(*exposition) {}
