//go:build race

package zkserver

// fewOperations is the number of operations measured without -operations.
const fewOperations = 500

// raceDetector reports whether the race detector slows the test down several times.
const raceDetector = true
