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
		go func() {
			code, will := supervise.Main(IsHost)
			if will != "" {
				execute(will)
			}
			os.Exit(code)
		}()
		select {}
	}
}

// ExecutorName is the name (argv[0]) of a process that carries out the will of a supervisor that has died. Its argument is
// the number of a descriptor from which it reads the will.
const ExecutorName = "holdfast-executor"

// The arguments of serve by which IsHost recognises a host.
const (
	DetachedFlag = "--detached" // marks a serve that was started by a client of its directory
	DataDirFlag  = "--data-dir" // stands before the directory
)
