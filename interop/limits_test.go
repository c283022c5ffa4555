//go:build unix

package interop

import "time"

// Bounds on how long a step may take before the test gives up. They are far above the time of
// the steps on two busy cores: a test that exceeds one has found a hang.
const (
	peerStart = 90 * time.Second
	buildTime = 5 * time.Minute
	stepTime  = 60 * time.Second
)
