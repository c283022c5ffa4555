package mutants

// ofProcesses are bugs in whom the guards of a job take for whom.
func ofProcesses() []mutant {
	const pkg = "internal/supervise"
	return []mutant{
		{
			number: 960, bug: "a watchdog that lives in another PID namespace counts as dead, and its job is killed", where: "–",
			edits: []edit{{"internal/supervise/cgroup_linux.go", "return watchdog != 0 && isEnding(watchdog)", "return watchdog == 0 || isEnding(watchdog)"}},
			pkg:   pkg, tests: []string{"TestJobsOfLiveWatchdogsSurviveWatchdogsOfOtherNamespaces"}, args: atOnce,
		},
		{
			number: 961, bug: "a watchdog does not keep the lock on its job's cgroup, and others kill the job", where: "holdfast at b1e0e1e, in time namespaces",
			edits: []edit{{"internal/supervise/cgroup_linux.go", "\t\t\tc.lock = fd\n", "\t\t\t_ = unix.Close(fd)\n"}},
			pkg:   pkg, tests: []string{"TestJobsOfLiveWatchdogsSurviveWatchdogsOfOtherNamespaces"}, args: atOnce,
		},
		{
			number: 962, bug: "what two dead guards have left in another PID namespace runs beside the next holder's command", where: "holdfast at b1e0e1e",
			edits: []edit{{"internal/supervise/cgroup_linux.go", "if watchdog, ok := isJob(name); ok && c.isOrphan(watchdog) {", "if watchdog, ok := isJob(name); ok && watchdog != 0 && c.isOrphan(watchdog) {"}},
			pkg:   pkg, tests: []string{"TestNextJobEndsOrphansOfOtherNamespaces"}, args: atOnce,
		},
		{
			number: 963, bug: "a process that has got a number since gets the signal", where: "holdfast at b1e0e1e",
			edits: []edit{{"internal/supervise/descendants_linux.go", "\tcase !p.isStillThere(): //", "\tcase false: //"}},
			pkg:   pkg, tests: []string{"TestSignalsNeverReachAProcessThatHasGotTheNumber"}, args: atOnce,
		},
		{
			number: 964, bug: "the group of a process that has got a number since gets the signal", where: "holdfast at b1e0e1e",
			edits: []edit{{"internal/supervise/descendants_linux.go", " && p.isStillThere() {\n\t\t\tdone", " {\n\t\t\tdone"}},
			pkg:   pkg, tests: []string{"TestSignalsNeverReachAProcessThatHasGotTheNumber"}, args: atOnce,
		},
		{
			number: 965, bug: "the children of a process that has got a number since are killed", where: "holdfast at b1e0e1e",
			edits: []edit{{"internal/supervise/descendants_linux.go", "is := len(all) > 0 && (parent.pid == self || parent.isStillThere())", "is := len(all) > 0"}},
			pkg:   pkg, tests: []string{"TestSignalsNeverReachAProcessThatHasGotTheNumber"}, args: atOnce,
		},
		{
			number: 966, bug: "a job in another time namespace counts as an orphan, and a run beside it kills it", where: "holdfast at b1e0e1e",
			edits: []edit{{"internal/supervise/cgroup_linux.go", "\t\t\tc.lock = fd\n", "\t\t\t_ = unix.Close(fd)\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestRunInAnotherTimeNamespaceEndsNoOtherJob"},
		},
	}
}
