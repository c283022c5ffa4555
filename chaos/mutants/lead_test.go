package mutants

// ofLead are those of the commands that lead (elect --http), that have shards, and of the progress of a wait.
func ofLead() []mutant {
	return []mutant{
		{
			number: 662, bug: "/leader says yes until the lock expires, also when the command is told to stop", where: "–",
			edits: []edit{{"internal/cli/hold/elect/elect_http.go", "\tuntil = o.hold.Deadline().Add(-o.grace)\n", "\tuntil = o.hold.Deadline()\n"}},
			pkg:   "internal/cli/hold/elect", tests: []string{"TestPageSaysNoFromTERM"},
		},
		{
			number: 663, bug: "/leader says yes without a connection to a server", where: "–",
			edits: []edit{{"internal/cli/hold/elect/elect_http.go", " || !p.connected() || p.known", " || p.known"}},
			pkg:   "internal/cli/hold/elect", tests: []string{"TestPageSaysNoBeforeAnotherLeads", "TestPageFollowsTheTerm"},
		},
		{
			number: 664, bug: "the name of a leader is shown for ever if the servers do not answer", where: "the leader-elector of Kubernetes (kubernetes-retired/contrib#2933)",
			edits: []edit{
				{"internal/cli/hold/elect/elect_http.go", "p.leader.Term != 0 && left > 0", "p.leader.Term != 0"},
				{"internal/cli/hold/elect/elect_http.go", "\t\tif err != nil {\n\t\t\tp.change(func() { p.known = false })\n", "\t\tif err != nil {\n"},
			},
			pkg: "internal/cli/hold/elect", tests: []string{"TestPageForgetsTheLeader"},
		},
		{
			number: 665, bug: "TryCampaign waits for the leader", where: "–",
			edits: []edit{{"election.go", "return q.try(ctx, \"try campaign\", names.Mutex)", "return q.wait(ctx, \"try campaign\", names.Mutex)"}},
			tests: []string{"TestTryCampaign"},
		},
		{
			number: 666, bug: "if the watchdog of one command dies, the commands of the other shards are killed", where: "–",
			edits: []edit{{"internal/supervise/supervisor_linux.go", "return r.others[pid] || pid != r.watchdog.Pid && watchdogs.has(pid) || r.spare(pid)", "return r.others[pid] || r.spare(pid)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^shard_watchdog$"},
		},
		{
			number: 667, bug: "a shard is released while its command still ends", where: "zk-flock",
			edits: []edit{{"internal/cli/hold/shard/shard.go", "\t\tout, err := w.once(ctx, path, s, warn)\n", "\t\tvar out supervise.Outcome\n\t\tvar err error\n\t\tgo w.once(ctx, path, s, warn)\n\t\t<-ctx.Done()\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^shard_moves$"},
		},
		{
			number: 668, bug: "the progress of a wait stays on the terminal when the command begins", where: "–",
			edits: []edit{{"internal/cli/term/progress.go", "\tfor at := range slots {\n\t\ts.Progress(at, \"\")\n\t}\n\ts.settled", "\ts.settled"}, {"internal/cli/hold/notice.go", "\tdefer p.say.Progress(term.SlotQueue, \"\")\n", ""}},
			pkg:   "internal/cli/hold", tests: []string{"TestProgressOfAWait"},
		},
		{
			number: 669, bug: "the progress of a wait is wider than the terminal, and leaves a line each second", where: "–",
			edits: []edit{{"internal/cli/term/progress.go", "fit(\"holdfast: \"+text, width-1)", "fit(\"holdfast: \"+text, 1000)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestWaitIsShownInPlace", "TestWaitInTmux"},
		},
		{
			number: 670, bug: "/leader says yes after the command was asked to stop by a signal or --max-hold", where: "–",
			edits: []edit{{"internal/cli/hold/run.go", ", Stopping: r.Steps.stop,", ","}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^elect_http$"},
		},
		{
			number: 671, bug: "the watchdog does not say that it asks the command to stop", where: "–",
			edits: []edit{{"internal/supervise/watchdog_linux.go", "func() { _ = w.link.send(verbStops, 0, \"\") }", "func() {}"}},
			pkg:   "internal/supervise", tests: []string{"TestStoppingIsCalled"},
		},
		{
			number: 672, bug: "a wait ends with its session if that ends when the lock is just held", where: "–",
			edits: []edit{{"internal/cli/hold/acquire.go", "if !over || errors.Is", "if over || !over || errors.Is"}},
			pkg:   "internal/cli/hold", tests: []string{"TestWaitGoesOnAfterTheLockIsLostUnused"},
		},
		{
			number: 673, bug: "a signal that arrives together with the lock leaves the reservation of a command that did not start", where: "–",
			edits: []edit{{"internal/cli/hold/acquire.go", "\t\tk.reserver.undo(c.Client, h)\n\t\treturn k.giveUp(h)\n", "\t\treturn k.giveUp(h)\n"}},
			pkg:   "internal/cli/hold", tests: []string{"TestWaitGoesOnAfterTheLockIsLostUnused"},
		},
		{
			number: 674, bug: "the signal of --kill-signal is not forwarded", where: "–",
			edits: []edit{{"internal/cli/job/job.go", "\tif slices.Contains(supervise.JobSignals, stop) {\n", "\tif slices.Contains(supervise.JobSignals, stop) || stop != nil {\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^run_ends$"},
		},
		{
			number: 675, bug: "a holdfast in the command of a shard uses another server", where: "–",
			edits: []edit{{"internal/cli/hold/shard/shard.go", "append(plan.Environment(s.Hold),", "append(plan.Environment(s.Hold)[:5],"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^shard$"},
		},
		{
			number: 676, bug: "run says that the lock was lost, though the job is recorded as done", where: "–",
			edits: []edit{{"internal/cli/hold/run.go", " && !r.taker.turn.recorded", ""}},
			pkg:   "internal/cli/hold", tests: []string{"TestOutcomesOfARecordedJob"},
		},
		{
			number: 677, bug: "the status file says that the lock was lost while the command ran, though only the record is missing", where: "–",
			edits: []edit{{"internal/cli/hold/status_file.go", "s.Outcome = outcomeNotRecorded", "s.Outcome = outcomeLost"}},
			pkg:   "internal/cli/hold", tests: []string{"TestOutcomesOfARecordedJob"},
		},
	}
}
