package mutants

// besideOthers are bugs for tests that need other clients and servers.
func besideOthers() []mutant {
	return []mutant{
		{
			number: 379, bug: "that bridge (157), behind a link of Apache's servers", where: "holdfast until 3a97b7e",
			edits: []edit{{"zk/proof.go", "\tswitch {\n\tcase lasts(p.touched):",
				"\tif !p.step.sent.IsZero() {\n\t\tp.touch(p.step.sent.Add(-max(timeout/5, pingEvery(p.tick)+500*time.Millisecond)))\n\t}\n\tswitch {\n\tcase lasts(p.touched):"}},
			pkg: beside, tests: []string{"TestLockBehindALinkThatWasHeldUp"},
		},
		{
			number: 380, bug: "whether a server is alone (161) is asked once, and it joins an ensemble of Apache's", where: "holdfast until 3a97b7e",
			edits: []edit{
				{"zk/conn.go", "\treturn &conn{\n", "\tonce := &conn{\n"},
				{"zk/conn.go", "wrote: t, heard: time.Now(),\n\t}\n", "wrote: t, heard: time.Now(),\n\t}\n\tif once.mode = s.known; once.mode != modeUnknown {\n\t\tonce.asked = true\n\t}\n\treturn once\n"},
				{"zk/session.go", "\ts.askMode()\n\ts.queue = append(s.queue, rest...)", "\tif !c.asked {\n\t\ts.askMode()\n\t}\n\ts.queue = append(s.queue, rest...)"},
				{"zk/session.go", "\tmodeKnown   chan struct{}", "\tknown       ensembleMode\n\tmodeKnown   chan struct{}"},
				{"zk/session.go", "\t\ts.modeKnown = make(chan struct{})\n", "\t\ts.known = c.mode\n"},
			},
			pkg: beside, tests: []string{"TestHolderIsToldInTimeWhenItsLoneServerHasJoinedAnEnsemble"},
		},
		{
			number: 381, bug: "a lock takes no notice of another library's under its name", where: "holdfast at 3a97b7e, Curator, kazoo",
			edits: []edit{{"internal/queue/listing.go", "\tif a.Others > 0 {\n", "\tif a.Others < 0 {\n"}},
			pkg:   beside, tests: []string{"TestOthersUnderTheNameAreRefused"},
		},
		{
			number: 382, bug: "numbers below zero are read without their sign", where: "kazoo #730",
			edits: []edit{{"internal/queue/names/grammar.go", "return int32(n), err", "return int32(max(n, -n)), err"}},
			pkg:   beside, tests: []string{"TestQueueAmongNegativeNumbers"},
		},
		{
			number: 383, bug: "nobody waits", where: "–",
			edits: []edit{{"internal/queue/names/contender.go", "return Before(other.Seq, c.Seq) && !(c.Shared && other.Shared)", "return false"}},
			pkg:   beside, tests: []string{"TestRecipesOnAnApacheEnsemble"},
		},
		{
			number: 384, bug: "the watchdog ends when its supervisor does, and leaves the job", where: "consul lock, etcdctl lock",
			edits: []edit{
				{"internal/supervise/watchdog_linux.go", "\t\tcase err != nil:\n\t\t\treturn\n", "\t\tcase err != nil:\n\t\t\tos.Exit(0)\n"},
				{"internal/supervise/watchdog_linux.go", "cg, _ := makeCgroup()", "var cg *cgroup"},
			},
			pkg: beside, tests: []string{"TestCommandsOfTwoHoldersNeverRunTogether"},
			args: []string{"-pairs=2", "-run=^TestCommandsOfTwoHoldersNeverRunTogether$/^file$/^supervisor_killed$"},
		},
		{
			number: 560, bug: "a result is only looked for before the caller queues (446), and the chaos on an ensemble sees it", where: "check and then lock",
			edits: []edit{{"once/call.go", "last := j.counts(seen, h.place); last != nil", "last := j.counts(seen, h.place); last != nil && j.period > 0"}},
			pkg:   beside, tests: []string{"TestChaos"}, args: []string{"-minutes=0.3"},
		},
		{
			number: 561, bug: "the token of a tree's Hold is that of its path (411), and the chaos on an ensemble sees it", where: "made up",
			edits: []edit{{"multilock.go", "\tif m.tree != \"\" { // the root fences", "\tif false { // the root fences"}},
			pkg:   beside, tests: []string{"TestChaos"}, args: []string{"-minutes=0.3"},
		},
		{
			number: 562, bug: "a shard is unlocked when it is to move (507), and the chaos on an ensemble sees it", where: "–",
			edits: []edit{{"shards/worker.go", "func() { k.guard(returned) }", "func() { h.Unlock(); k.guard(returned) }"}},
			pkg:   beside, tests: []string{"TestChaos"}, args: []string{"-minutes=1.5"},
		},
	}
}
