package daemon

import (
	"math"
	"os"
	"testing"
)

func TestTheLimitOfACgroupIsTheLeastOfThoseAbove(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no cgroups", nil, math.MaxInt64},
		{"version 2", map[string]string{
			"/proc/self/cgroup":                                       "0::/system.slice/holdfast.service\n",
			"/sys/fs/cgroup/system.slice/memory.max":                  "max\n",
			"/sys/fs/cgroup/system.slice/holdfast.service/memory.max": "1073741824\n",
		}, 1 << 30},
		{"a group above", map[string]string{
			"/proc/self/cgroup":             "0::/a/b\n",
			"/sys/fs/cgroup/a/memory.max":   "1000000\n",
			"/sys/fs/cgroup/a/b/memory.max": "2000000\n",
		}, 1_000_000},
		{"a container that sees the path of its host", map[string]string{
			"/proc/self/cgroup":         "0::/docker/1234\n",
			"/sys/fs/cgroup/memory.max": "3000000\n",
		}, 3_000_000},
		{"version 1", map[string]string{
			"/proc/self/cgroup":                             "12:cpu,cpuacct:/x\n4:memory:/x\n0::/x\n",
			"/sys/fs/cgroup/memory/x/memory.limit_in_bytes": "4000000\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n",
		}, 4_000_000},
		{"version 1, no limit", map[string]string{
			"/proc/self/cgroup":                           "4:memory:/\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, math.MaxInt64},
		{"nonsense", map[string]string{"/proc/self/cgroup": "0::\nx\n::\n", "/sys/fs/cgroup/memory.max": "-5\n"}, math.MaxInt64},
	} {
		read := func(name string) ([]byte, error) {
			if text, there := tt.files[name]; there {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		}
		if got := cgroupLimit(read); got != tt.want {
			t.Errorf("%s: %d; want %d", tt.name, got, tt.want)
		}
	}
}
