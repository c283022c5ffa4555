//go:build unix && !linux

package main

func memoryMetrics(*exposition) {}
