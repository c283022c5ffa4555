//go:build !linux

package zkserver

import "time"

var threadEpoch = time.Now()

// threadTime returns elapsed time. On systems with clocks for threads, it returns the
// processor time of this thread.
func threadTime() time.Duration { return time.Since(threadEpoch) }
