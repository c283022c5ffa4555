//go:build !unix

package main

// processMetrics adds nothing: only the start time is known here.
func processMetrics(*exposition) {}
