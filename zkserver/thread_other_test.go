//go:build !linux

package zkserver

import "time"

var threadEpoch = time.Now()

// threadTime returns the time that has passed. Where threads have clocks of their own, it is the
// time of this thread.
func threadTime() time.Duration { return time.Since(threadEpoch) }
