// Package watchdog makes a process that was started as a watchdog do its work, and nothing
// else.
//
// The work starts in this package's init. Go initialises packages in the order of their import
// paths, each after its imports. So a watchdog never initialises later packages: TLS, HTTP, the
// locks and the command line. They would cost each run of a command time and memory. Therefore
// this package imports little.
package watchdog

import (
	"os"

	"holdfast/internal/supervise"
)

func init() {
	if supervise.IsWatchdog() {
		// A goroutine of its own, because the goroutine of init is bound to its thread.
		go func() { os.Exit(supervise.Main(IsHost)) }()
		select {}
	}
}

// The arguments of serve by which IsHost recognises a host.
const (
	DetachedFlag = "--detached" // marks a serve that was started by a client of its directory
	DataDirFlag  = "--data-dir" // stands before the directory
)
