//go:build unix

package main

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Under nohup, a process ignores SIGHUP, and so would every process that it starts: the tests of hang-ups
// would wait in vain. A signal that is handled is the default again in a new process.
func init() {
	if filepath.Base(os.Args[0]) != "holdfast" && signal.Ignored(syscall.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
}
