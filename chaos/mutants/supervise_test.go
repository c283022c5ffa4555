package mutants

// atOnce is for tests that fail in many ways: the first will do.
var atOnce = []string{"-patience=3s", "-failfast"}

// ofTheWatchdog are bugs of the two processes that guard a job.
func ofTheWatchdog() []mutant {
	const pkg = "internal/supervise"
	return []mutant{
		{
			number: 88, bug: "the watchdog does not act while the supervisor is stopped", where: "holdfast before it had one",
			edits: []edit{{"internal/supervise/watchdog_linux.go", "left: w.shared.left,", "left: func() time.Duration { return time.Hour },"},
				{"internal/supervise/watchdog_linux.go", "\t\"syscall\"\n", "\t\"syscall\"\n\t\"time\"\n"}},
			pkg: pkg, tests: []string{"TestJobOfAStoppedSupervisorEndsInTime"}, args: atOnce,
		},
		{
			number: 89, bug: "processes that are stopped stay stopped", where: "–",
			edits: []edit{{"internal/supervise/clock_linux.go", "signo: int32(unix.SIGCONT)", "signo: int32(unix.SIGURG)"}},
			pkg:   pkg, tests: []string{"TestJobOfAStoppedPairEndsInTime"}, args: atOnce,
		},
		{
			number: 90, bug: "the supervisor trusts that a dead watchdog has ended the job", where: "–",
			edits: []edit{{"internal/supervise/supervisor_linux.go", "return r.alone(\"the watchdog process has died\", false)", "return r.outcome(syscall.WaitStatus(syscall.SIGKILL), false), nil"}},
			pkg:   pkg, tests: []string{"TestJobDiesWithItsWatchdog"}, args: atOnce,
		},
		{
			number: 91, bug: "the supervisor waits for a watchdog that hangs", where: "–",
			edits: []edit{{"internal/supervise/supervisor_linux.go", "\t\tcase <-r.backstop.C:\n", "\t\tcase <-r.backstop.C:\n\t\t\tcontinue\n"}},
			pkg:   pkg, tests: []string{"TestJobOfAWatchdogThatHangsIsEnded"}, args: atOnce,
		},
		{
			number: 92, bug: "what has left the command's process group is not looked for", where: "consul #2022; any setsid",
			edits: []edit{{"internal/supervise/descendants_linux.go", "\tfor pause := time.Millisecond; ; pause", "\tfor pause := time.Millisecond; pause < 0; pause"},
				{"internal/supervise/descendants_linux.go", "\tfor range maxFreezes {", "\tfor range 0 * maxFreezes {"}},
			pkg: pkg, tests: []string{"TestJobDiesWithItsSupervisor"}, args: atOnce,
		},
		{
			number: 93, bug: "the orphans of the job go to init", where: "holdfast before 0.1: a double fork",
			edits: []edit{{"internal/supervise/job_linux.go", "unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1,", "unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0,"}},
			pkg:   pkg, tests: []string{"TestJobDiesWithItsSupervisor"}, args: atOnce,
		},
		{
			number: 94, bug: "a command that has left its process group gets no signals", where: "holdfast before 0.1: setpgid",
			edits: []edit{{"internal/supervise/job_linux.go", "\t\t_ = unix.Kill(j.pid, s)\n", "\t\t_ = s\n"}},
			pkg:   pkg, tests: []string{"TestSignalsReachACommandThatHasLeftItsGroup"}, args: atOnce,
		},
		{
			number: 95, bug: "after a certain loss the command has its grace", where: "consul #9788; holdfast before 0.1",
			edits: []edit{{"internal/supervise/guard.go", "\tg.told = true\n\tg.doubt()\n\tif !g.killed {\n\t\tg.kill(sayLost)\n\t}\n", "\tg.tell(g.left())\n"}},
			pkg:   pkg, tests: []string{"TestCertainLossKillsTheCommandAtOnce"}, args: atOnce,
		},
		{
			number: 96, bug: "the command outlives both of its guards", where: "go.dev/issue/27505",
			edits: []edit{{"internal/supervise/job_linux.go", "Setpgid: true, Pdeathsig: syscall.SIGKILL", "Setpgid: true"}},
			pkg:   pkg, tests: []string{"TestCommandDiesWithBoth"}, args: atOnce,
		},
		{
			number: 97, bug: "a job that forks is killed as it was listed once", where: "–",
			edits: []edit{{"internal/supervise/descendants_linux.go", "if f.reap() && len(struck) == 0 {", "if f.reap(); true {"},
				{"internal/supervise/descendants_linux.go", "\tfor range maxFreezes {", "\tfor range 1 {"},
				{"internal/supervise/descendants_linux.go", "_ = unix.Kill(-p.group, sig)", "_ = p.group"}},
			pkg: pkg, tests: []string{"TestEndFindsWhatIsForkedWhileItLooks"}, args: atOnce,
		},
		{
			number: 98, bug: "what two dead guards have left runs beside the next holder's command", where: "–",
			edits: []edit{{"internal/supervise/cgroup_linux.go", "\tendOrphans(own)\n", ""}},
			pkg:   pkg, tests: []string{"TestNextJobEndsWhatTwoDeadGuardsHaveLeft"}, args: atOnce,
		},
		{
			number: 99, bug: "whatever calls itself a host outlives the job", where: "holdfast before 0.1",
			edits: []edit{{"internal/watchdog/host_linux.go", "\tif len(locked) == 0 {", "\tif len(locked) < 0 {"},
				{"internal/watchdog/host_linux.go", "\treturn slices.Contains(locked, lock.Ino)", "\treturn true"}},
			pkg: "cmd/holdfast", tests: []string{"TestHostIsKnownByItsLock"},
		},
		{
			number: 187, bug: "a process whose main thread has ended counts as dead", where: "a look at /proc/PID/stat alone",
			edits: []edit{{"internal/supervise/descendants_linux.go", "p.headless = p.state == 'Z' && ", "p.headless = false && "}},
			pkg:   pkg, tests: []string{"TestJobDiesWithItsWatchdog"}, args: atOnce,
		},
		{
			number: 188, bug: "cgroup.kill is trusted to kill such a process", where: "the kernel, 6.18 and before",
			edits: []edit{{"internal/supervise/cgroup_linux.go", "\tkillHeadless(c.path)\n\treturn nil", "\treturn nil"}},
			pkg:   pkg, tests: []string{"TestNextJobEndsWhatTwoDeadGuardsHaveLeft"}, args: atOnce,
		},
		{
			number: 189, bug: "a command is started though the lock was lost meanwhile", where: "–",
			edits: []edit{{"internal/supervise/watchdog_linux.go", "\tif isClosed(w.lost) || w.shared.left() <= KillMargin {", "\tif false {"}},
			pkg:   pkg, tests: []string{"TestCommandIsNotStartedTooLate"}, args: atOnce,
		},
		{
			number: 190, bug: "a watchdog that died during the wait is missing when the lock is held", where: "–",
			edits: []edit{{"internal/supervise/supervisor_linux.go", "\tif isClosed(s.dead) {", "\tif false {"}},
			pkg:   pkg, tests: []string{"TestWatchdogThatIsNotThereAtTheStart"}, args: atOnce,
		},
		{
			number: 220, bug: "ctrl-Z is lost while the command asks for the terminal", where: "POSIX: CONT discards pending stop signals",
			edits: []edit{{"internal/supervise/job_linux.go", "key := asked && j.pending(unix.SIGTSTP)", "key := asked && false"}},
			pkg:   pkg, tests: []string{"TestStopKeyIsNotLostWhileTheCommandAsksForTheTerminal"},
		},
		{
			number: 289, bug: "the end of a job is believed without a look at what is left", where: "–",
			edits: []edit{{"internal/supervise/job_linux.go", "if j.family.reap() && j.cgroup.removeEmpty() {", "if j.family.reap(); true {"}},
			pkg:   pkg, tests: []string{"TestLeftoversThatLeftTheGroupAreGoneBeforeTheEnd"},
		},
		{
			number: 290, bug: "a watchdog that was reaped still gets signals", where: "–",
			edits: []edit{{"internal/supervise/job_linux.go", "\tc.ended = true\n", ""}},
			pkg:   pkg, tests: []string{"TestChildGetsNoSignalAfterItIsReaped"}, args: atOnce,
		},
		{
			number: 291, bug: "the user's GOMAXPROCS goes before the watchdog's", where: "–",
			edits: []edit{{"internal/supervise/supervisor_linux.go", "return strings.HasPrefix(variable, \"GOMAXPROCS=\")", "return false && strings.HasPrefix(variable, \"\")"}},
			pkg:   pkg, tests: []string{"TestWatchdogEnv"}, args: atOnce,
		},
		{
			number: 536, bug: "a message is not sent if this process gets no processor for 50 ms", where: "ours until 23 November",
			edits: []edit{{"internal/supervise/link_linux.go", "\tif full != unix.EAGAIN && full != unix.EINTR {", "\tif full = unix.EAGAIN; full == nil {"}, {"internal/supervise/link_linux.go", "func(fd uintptr) { _, full = unix.Write(int(fd), b) }", "func(uintptr) { full = nil }"}},
			pkg:   pkg, tests: []string{"TestMessageIsSentIfThereIsRoom"},
		},
	}
}
