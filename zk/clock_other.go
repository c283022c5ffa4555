//go:build !linux

package zk

import "time"

// systemSlept cannot measure suspends on this system. After a suspend, a session seems proven
// for longer than it is.
func systemSlept() time.Duration { return 0 }
