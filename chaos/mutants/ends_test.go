package mutants

// ofEnds are those of the ways in which a command ends.
func ofEnds() []mutant {
	const pkg, guard = "internal/supervise", "internal/supervise/guard.go"
	return []mutant{
		{
			number: 600, bug: "--kill-after counts only before the deadline", where: "ours until 23 November",
			edits: []edit{{guard, "\tg.killWithin(g.ending.KillAfter)\n", ""}},
			pkg:   pkg, tests: []string{"TestKillFollowsAForwardedSignal"}, args: atOnce,
		},
		{
			number: 601, bug: "a long --kill-after lets the command outlive the lock", where: "consul #9788",
			edits: []edit{{guard, "min(cmp.Or(g.ending.KillAfter, g.ending.Grace), left-KillMargin)", "cmp.Or(g.ending.KillAfter, g.ending.Grace)"}},
			pkg:   pkg, tests: []string{"TestKillAfterDoesNotMoveTheDeadline"}, args: impatient,
		},
		{
			number: 602, bug: "the lock is released while leftover processes run that it waits for", where: "–",
			edits: []edit{{guard, "\tcase leftovers == LeftoversAwaited:\n\t\treturn true\n", "\tcase leftovers == LeftoversAwaited:\n\t\treturn false\n"}},
			pkg:   pkg, tests: []string{"TestLeftoversAreAwaited"}, args: atOnce,
		},
		{
			number: 603, bug: "ignored leftover processes are killed by the next command's watchdog", where: "–",
			edits: []edit{{"internal/supervise/watchdog_linux.go", "if cg != nil && o.ending.Leftovers == LeftoversIgnored {", "if false {"}},
			pkg:   pkg, tests: []string{"TestLeftoversAreIgnored"}, args: atOnce,
		},
		{
			number: 604, bug: "the command inherits the writing end of HOLDFAST_LOST_FD, so it never ends", where: "–",
			edits: []edit{{"internal/supervise/lost_unix.go", "\t\tunix.CloseOnExec(ends[1])\n", ""}},
			pkg:   pkg, tests: []string{"TestDescriptorEndsWhenTheLockIsInDoubt"}, args: atOnce,
		},
		{
			number: 605, bug: "HOLDFAST_LOST_FD ends only when the lock is certainly lost", where: "–",
			edits: []edit{{guard, "\tg.told, g.limit = true, 0\n\tg.doubt()\n", "\tg.told, g.limit = true, 0\n"}},
			pkg:   pkg, tests: []string{"TestDescriptorEndsWhenTheLockIsInDoubt"}, args: atOnce,
		},
		{
			number: 606, bug: "a command that ignores TERM runs on after --max-hold", where: "–",
			edits: []edit{{guard, "\t\tg.killWithin(g.ending.MaxHoldKill)\n", ""}},
			pkg:   pkg, tests: []string{"TestMaxHold"}, args: atOnce,
		},
		{
			number: 607, bug: "--on-suspect stop suspends the command alone", where: "–",
			edits: []edit{{"internal/supervise/job_linux.go", "\tfrozen, refused := j.family.freeze()\n", "\tvar refused []process\n\tcommand, _ := readProcess(j.pid)\n\tfrozen := []process{command}\n\t_ = unix.Kill(j.pid, unix.SIGSTOP)\n"}},
			pkg:   pkg, tests: []string{"TestSuspectJobIsSuspended"}, args: atOnce,
		},
		{
			number: 608, bug: "the supervisor kills a command that goes on without the lock (--on-lost)", where: "–",
			edits: []edit{{"internal/supervise/supervisor_linux.go", "\tif r.Ending.OnLost == LostKills {\n\t\tr.backstop.in(left - late)\n\t}\n", "\tr.backstop.in(left - late)\n"}},
			pkg:   pkg, tests: []string{"TestJobThatGoesOn"}, args: atOnce,
		},
		{
			number: 609, bug: "the command of a holdfast run in another has the variables of both", where: "ours until 23 November; etcdctl lock",
			edits: []edit{{"internal/cli/job/job.go", "return (&exec.Cmd{Env: append(os.Environ(), added...)}).Environ()", "return append(os.Environ(), added...)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^run_env$"},
		},
	}
}
