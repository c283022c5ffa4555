//go:build unix && !linux

package host

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// raisePriority sets niceness 0. If that is not permitted, it returns the niceness that is left.
func raisePriority() (kept []string) {
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err == nil && nice != 0 && unix.Setpriority(unix.PRIO_PROCESS, 0, 0) != nil {
		kept = append(kept, fmt.Sprintf("nice %d", nice))
	}
	return kept
}

func dup(from, to int) error { return unix.Dup2(from, to) }
