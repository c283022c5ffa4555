//go:build unix

package shard

import (
	"os"
	"syscall"
)

// resume makes a command continue that is stopped.
func resume(signals chan<- os.Signal) { signals <- syscall.SIGCONT }
