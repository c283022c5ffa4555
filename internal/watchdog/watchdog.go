// Package watchdog makes a process that was started as a watchdog do its work, and nothing else.
// Its work begins while the program is being initialised: the packages that are initialised after
// this one (TLS, HTTP, the command line) would cost each run of a command time and memory. So this
// package imports little.
package watchdog

import (
	"os"

	"holdfast/internal/supervise"
)

func init() {
	if supervise.IsWatchdog() {
		// A goroutine of its own: that of init keeps to its thread.
		go func() { os.Exit(supervise.Main(IsHost)) }()
		select {}
	}
}

// The arguments of serve that IsHost knows a host by.
const (
	DetachedFlag = "--detached" // marks a serve that was started by a client of its directory
	DataDirFlag  = "--data-dir" // stands before the directory
)
