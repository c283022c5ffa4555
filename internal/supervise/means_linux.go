package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Means are what a watchdog can use here to end a job. See [LookForMeans].
type Means struct {
	Cgroup        string // where jobs get their cgroups; "" if they get none
	NoCgroup      error  // why not
	Confined      bool   // this is a user namespace, in which root cannot kill processes of all users
	NoDeathSignal error  // why the kernel does not kill the command at the death of the watchdog; nil if it does
	Orphans       int    // cgroups of jobs whose watchdogs are dead
}

// LookForMeans returns what a watchdog that starts now could use. It changes nothing.
func LookForMeans() (m Means) {
	if m.Cgroup, m.NoCgroup = usableCgroup(); m.NoCgroup == nil {
		m.Orphans = len(orphans(m.Cgroup))
	}
	if users, err := os.ReadFile("/proc/self/uid_map"); err == nil {
		m.Confined = strings.Join(strings.Fields(string(users)), " ") != "0 0 4294967295"
	}
	var sig int32
	if _, _, errno := unix.Syscall6(unix.SYS_PRCTL, unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&sig)), 0, 0, 0, 0); errno != 0 {
		m.NoDeathSignal = os.NewSyscallError("prctl", errno)
	}
	return m
}

// usableCgroup returns our cgroup if newCgroup could make one below it.
func usableCgroup() (string, error) {
	own, err := ownCgroup()
	if err != nil {
		return "", errors.New("cgroups of version 2 are not mounted")
	}
	if err := unix.Access(own, unix.W_OK|unix.X_OK); err != nil {
		return "", &os.PathError{Op: "write to", Path: own, Err: err}
	}
	// The root of the tree has no cgroup.kill, whatever the kernel.
	_, err = os.Stat(filepath.Join(own, "cgroup.kill"))
	_, parent := os.Stat(filepath.Join(own, "cgroup.type"))
	if err == nil || parent != nil && kernelAtLeast(5, 14) {
		return own, nil
	}
	return "", errors.New("the kernel has no cgroup.kill, which came with Linux 5.14")
}

// kernelAtLeast reports whether the kernel has this version or a later one.
func kernelAtLeast(major, minor int) bool {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return false
	}
	var x, y int
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &x, &y); n != 2 {
		return false
	}
	return x > major || x == major && y >= minor
}
