//go:build !race

package zkserver

// raceDetector says that the test runs several times slower than the program does.
const raceDetector = false
