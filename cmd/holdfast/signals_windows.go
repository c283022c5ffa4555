package main

import (
	"os"
	"os/signal"
	"syscall"
)

var (
	stopSignals   = []os.Signal{os.Interrupt, syscall.SIGTERM}
	reloadSignals []os.Signal
	jobSignals    []os.Signal
)

func notify(c chan<- os.Signal, sigs ...os.Signal) {
	if len(sigs) > 0 {
		signal.Notify(c, sigs...)
	}
}

func surviveBrokenPipe() {}

func signalNumber(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return int(n)
	}
	return 0
}
