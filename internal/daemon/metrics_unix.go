//go:build unix

package daemon

import (
	"os"

	"golang.org/x/sys/unix"
)

// processMetrics adds the metrics of the process that the system reports.
func processMetrics(e *Exposition) {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &used) == nil {
		seconds := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
		e.single("process_cpu_seconds_total", "counter", "Total user and system CPU time spent in seconds.", seconds(used.Utime)+seconds(used.Stime))
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		e.single("process_max_fds", "gauge", "Maximum number of open file descriptors.", float64(limit.Cur))
	}
	if d, err := os.Open("/dev/fd"); err == nil {
		names, err := d.Readdirnames(-1)
		d.Close()
		if err == nil {
			e.single("process_open_fds", "gauge", "Number of open file descriptors.", float64(len(names)-1))
		}
	}
	memoryMetrics(e)
}
