//go:build !linux

package zk

import "time"

// systemSlept does not know on this system: after a suspend, a session is believed to be
// proven for longer than it is.
func systemSlept() time.Duration { return 0 }
