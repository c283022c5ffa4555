//go:build race

package zkserver

// fewOperations is how many operations are measured, unless -operations says otherwise.
const fewOperations = 500

// raceDetector says that the test runs several times slower than the program does.
const raceDetector = true
