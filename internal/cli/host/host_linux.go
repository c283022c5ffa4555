package host

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// raisePriority resets niceness, scheduling policy, I/O priority, processor affinity and OOM
// score. It returns the settings that it may not reset.
func raisePriority() (kept []string) {
	raiseLimit(unix.RLIMIT_NICE, false)
	const oomScore = "/proc/self/oom_score_adj"
	if score, err := os.ReadFile(oomScore); err == nil {
		if score = bytes.TrimSpace(score); string(score) != "0" && os.WriteFile(oomScore, []byte("0"), 0) != nil {
			kept = append(kept, "oom_score_adj "+string(score))
		}
	}
	// Each thread has the other settings for itself. A new thread inherits those of its
	// creator, so we look again until we have seen all threads.
	done := make(map[int]bool)
	for fresh := true; fresh; {
		fresh = false
		for _, tid := range threads() {
			if done[tid] {
				continue
			}
			fresh, done[tid] = true, true
			if left := raiseThread(tid); left != "" && len(done) == 1 {
				kept = append(kept, left)
			}
		}
	}
	return kept
}

// threads returns the ids of this process's threads; 0 stands for the calling thread.
func threads() (tids []int) {
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return []int{0}
	}
	for _, e := range entries {
		if tid, err := strconv.Atoi(e.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	return tids
}

// raiseThread resets one thread. It returns the policy or niceness that it may not reset.
func raiseThread(tid int) (kept string) {
	var all unix.CPUSet
	for cpu := range 8 * len(all) * 8 {
		all.Set(cpu) // the kernel ignores CPUs outside the cpuset
	}
	_ = unix.SchedSetaffinity(tid, &all)

	const whoProcess, classNone = 1, 0 // of ioprio_set(2): the niceness decides
	_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, whoProcess, uintptr(tid), classNone)

	now, err := unix.SchedGetAttr(tid, 0)
	if err != nil || now.Policy == unix.SCHED_NORMAL && now.Nice == 0 {
		return ""
	}
	// The second attempt leaves the niceness, since only a lower one needs a privilege.
	for _, nice := range []int32{0, now.Nice} {
		neutral := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: nice}
		if unix.SchedSetAttr(tid, &neutral, 0) == nil {
			now.Policy, now.Nice = unix.SCHED_NORMAL, nice
			break
		}
	}
	switch {
	case now.Policy != unix.SCHED_NORMAL:
		return fmt.Sprintf("scheduling policy %d (chrt)", now.Policy)
	case now.Nice != 0:
		return fmt.Sprintf("nice %d", now.Nice)
	}
	return ""
}

func dup(from, to int) error { return unix.Dup3(from, to, 0) }
