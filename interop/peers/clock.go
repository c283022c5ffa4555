//go:build unix

package peers

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

const faketimePackage = "libfaketime"

// NeedFaketime reports that libfaketime lacks on this machine, as a [MissingError],
// or nil.
func NeedFaketime() error {
	_, err := faketimeLibrary()
	return err
}

// faketimeLibrary is the variant for programs with threads.
func faketimeLibrary() (string, error) {
	const pattern = "/usr/lib/*/faketime/libfaketimeMT.so.1"
	found, err := filepath.Glob(pattern)
	if err != nil {
		return "", err
	}
	if len(found) == 0 {
		return "", &MissingError{What: pattern, Package: faketimePackage}
	}
	return found[0], nil
}

// clockEnv is what a process has in its environment whose clocks run at a rate other
// than 1: the one that tells the date and the one that only counts, and with them every
// wait that has an end.
func clockEnv(rate float64) ([]string, error) {
	library, err := faketimeLibrary()
	if err != nil {
		return nil, err
	}
	return []string{
		"LD_PRELOAD=" + library,
		fmt.Sprintf("FAKETIME=+0 x%g", rate),
		"LC_ALL=C", // the point in that number is the locale's
	}, nil
}

// ClockAhead is the environment of a process whose clock is ahead of the machine's by d, as exec.Cmd takes it.
func ClockAhead(d time.Duration) ([]string, error) {
	library, err := faketimeLibrary()
	if err != nil {
		return nil, err
	}
	return []string{"LD_PRELOAD=" + library, fmt.Sprintf("FAKETIME=+%.3f", d.Seconds()), "LC_ALL=C"}, nil
}

// forgetClock removes what libfaketime keeps in memory for a process, and removes itself
// only if the process ends in peace.
func forgetClock(pid int) {
	os.Remove(fmt.Sprintf("/dev/shm/faketime_shm_%d", pid))
	os.Remove(fmt.Sprintf("/dev/shm/sem.faketime_sem_%d", pid))
}
