//go:build unix

package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Under nohup, a process ignores SIGHUP; started by a script with "&", it ignores SIGINT and SIGQUIT; in a service of
// systemd, SIGPIPE. So would every process that it starts, and the tests of these signals would wait in vain. A signal that is handled is the
// default again in a new process.
func init() {
	for sig := syscall.Signal(1); sig <= 64; sig++ {
		if filepath.Base(os.Args[0]) != "holdfast" && signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}
