package terraform

import "time"

// SetLeftoverAge changes after which time an upload counts as interrupted. The result restores it.
func SetLeftoverAge(d time.Duration) func() {
	old := leftoverAge
	leftoverAge = d
	return func() { leftoverAge = old }
}
