package daemon

import (
	"math"
	"runtime/debug"
)

// LimitMemory tells Go the limit of this process's memory: nine tenths of that of the cgroup or of ulimit -v,
// unless GOMEMLIMIT has said another one. It returns Go's limit and what has set it; 0 if there is none. The
// server's bounds depend on it (zkserver.Limits).
func LimitMemory() (limit int64, by string) {
	if limit = debug.SetMemoryLimit(-1); limit < math.MaxInt64 {
		return limit, "GOMEMLIMIT"
	}
	if limit, by = memoryLimit(); limit > 0 {
		limit -= limit / 10
		debug.SetMemoryLimit(limit)
	}
	return limit, by
}
