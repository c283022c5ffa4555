//go:build !unix

package main

func processMetrics(*exposition) {} // only the start time is known
