package host

import (
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

const openNoFollow = 0

// detach separates the host from the console and its ctrl-C, and gives it normal priority.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP | windows.NORMAL_PRIORITY_CLASS}
}

// CloseInherited does nothing.
func CloseInherited() {} // a process inherits only the handles that exec passes

// ForgetStdout does nothing: nobody waits for the end of the pipe.
func ForgetStdout() {}

// ForgetStdin replaces stdin by the null device.
func ForgetStdin() {
	if null, err := os.Open(os.DevNull); err == nil {
		os.Stdin = null
	}
}

// BecomeNeutral does nothing.
func BecomeNeutral() []string { return nil } // detach does it
