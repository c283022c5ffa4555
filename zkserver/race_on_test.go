//go:build race

package zkserver

const raceDetector = true
