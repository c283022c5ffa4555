package mutants

// ofLead are those of the commands that lead (elect --http), that have shards, and of the progress of a wait.
func ofLead() []mutant {
	return []mutant{
		{
			number: 662, bug: "/leader says yes until the lock expires, also when the command is told to stop", where: "–",
			edits: []edit{{"cmd/holdfast/elect_http.go", "\tuntil = o.hold.Deadline().Add(-o.grace)\n", "\tuntil = o.hold.Deadline()\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestPageSaysNoFromTERM"},
		},
		{
			number: 663, bug: "/leader says yes without a connection to a server", where: "–",
			edits: []edit{{"cmd/holdfast/elect_http.go", " || !p.connected() || p.known", " || p.known"}},
			pkg:   "cmd/holdfast", tests: []string{"TestPageSaysNoBeforeAnotherLeads", "TestPageFollowsTheTerm"},
		},
		{
			number: 664, bug: "the name of a leader is shown for ever if the servers do not answer", where: "the leader-elector of Kubernetes (kubernetes-retired/contrib#2933)",
			edits: []edit{
				{"cmd/holdfast/elect_http.go", "p.leader.Term != 0 && left > 0", "p.leader.Term != 0"},
				{"cmd/holdfast/elect_http.go", "\t\tif err != nil {\n\t\t\tp.change(func() { p.known = false })\n", "\t\tif err != nil {\n"},
			},
			pkg: "cmd/holdfast", tests: []string{"TestPageForgetsTheLeader"},
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
			edits: []edit{{"cmd/holdfast/shard.go", "\t\tout, err := w.once(ctx, shards.Path(s.Number), s, warn)\n", "\t\tvar out supervise.Outcome\n\t\tvar err error\n\t\tgo w.once(ctx, shards.Path(s.Number), s, warn)\n\t\t<-ctx.Done()\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^shard_moves$"},
		},
		{
			number: 668, bug: "the progress of a wait stays on the terminal when the command begins", where: "–",
			edits: []edit{{"cmd/holdfast/progress.go", "\tfor at := range slots {\n\t\ts.progress(at, \"\")\n\t}\n\ts.settled", "\ts.settled"}, {"cmd/holdfast/progress.go", "\tdefer k.say.progress(slotQueue, \"\")\n", ""}},
			pkg:   "cmd/holdfast", tests: []string{"TestProgressOfAWait", "TestWaitIsShownInPlace"},
		},
		{
			number: 669, bug: "the progress of a wait is wider than the terminal, and leaves a line each second", where: "–",
			edits: []edit{{"cmd/holdfast/progress.go", "fit(\"holdfast: \"+text, width-1)", "fit(\"holdfast: \"+text, 1000)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestProgressIsDrawnInPlace", "TestWaitIsShownInPlace", "TestWaitInTmux"},
		},
	}
}
