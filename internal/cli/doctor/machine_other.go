//go:build !linux

package doctor

import (
	"errors"
	"os"
)

func readDisk(string) (disk, error) {
	return disk{}, errors.New("doctor can do this on Linux only")
}

func mayCreate(dir string) error {
	_, err := os.Stat(dir)
	return err
}

// examineWatchdog: there is no watchdog process here.
func examineWatchdog() (f findings) {
	f.warning("watchdog", "run commands that must never go on without their lock on Linux",
		"on this system, a command goes on if holdfast run is killed by kill -9 or stopped")
	return f
}
