//go:build unix

package interop

import "time"

// How long a step may take before the test gives up on it. They are far above
// what the steps take on two busy cores: a test that runs into one has found
// something that hangs, not something that is slow.
const (
	peerStart = 90 * time.Second
	buildTime = 5 * time.Minute
	stepTime  = 60 * time.Second
)
