package main

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

const openNoFollow = 0

// detach lets the host outlive our console and its ctrl-C, at normal priority.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP | windows.NORMAL_PRIORITY_CLASS}
}

func closeInherited() {} // exec hands over nothing but what it is told to

func forgetStdout() {}

func becomeNeutral() []string { return nil } // detach has done it
