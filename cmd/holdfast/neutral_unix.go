//go:build unix

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// A detached host serves other jobs than the one that happened to start it. So it gives up
// what it has inherited: priority, limits, umask, and whatever else makes it slower than
// others or ends it earlier. Its working directory and environment are startHost's concern.

// neutralLimits are the limits that can end a host or its service. Core files are left
// alone: Go writes none.
var neutralLimits = []struct {
	name      string
	resource  int
	unlimited bool // also the hard limit, where that is permitted
}{
	{"address space", unix.RLIMIT_AS, true},
	{"data segment", unix.RLIMIT_DATA, true},
	{"resident memory", unix.RLIMIT_RSS, true},
	{"processor time", unix.RLIMIT_CPU, true},
	{"file size", unix.RLIMIT_FSIZE, true},
	{"open files", unix.RLIMIT_NOFILE, false},
	{"processes", unix.RLIMIT_NPROC, false},
}

// becomeNeutral gives up what the process has inherited from the job that started it. It
// returns what it may not give up.
func becomeNeutral() (kept []string) {
	unix.Umask(0o077)
	for _, limit := range neutralLimits {
		if left := raiseLimit(limit.resource, limit.unlimited); left != nil && limit.unlimited {
			kept = append(kept, fmt.Sprintf("%s limited to %d", limit.name, left.Max))
		}
	}
	return append(kept, raisePriority()...)
}

// raiseLimit raises the soft limit to the hard one, and that as far as permitted if unlimited
// is asked for. It returns the limit that is left, nil if there is none.
func raiseLimit(resource int, unlimited bool) (left *unix.Rlimit) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil || limit.Cur == unix.RLIM_INFINITY {
		return nil
	}
	if unlimited {
		none := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		if unix.Setrlimit(resource, &none) == nil {
			return nil
		}
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(resource, &limit); err != nil || limit.Max != unix.RLIM_INFINITY {
		return &limit
	}
	return nil
}
