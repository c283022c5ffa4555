package mutants

// ofOneMachine are bugs of batches that are not synced, see zkserver.Config.OneMachine.
func ofOneMachine() []mutant {
	const pkg = "zkserver"
	return []mutant{
		{
			number: 215, bug: "on one machine nothing is synced", where: "–",
			edits: []edit{{"zkserver/commit.go", "= !lasting && !b.lasting &&", "= (!lasting || true) && !b.lasting &&"}},
			pkg:   pkg, tests: []string{"TestOneMachineSyncsWhatOutlivesASession", "TestOneMachineKeepsWhatLasts"},
		},
		{
			number: 216, bug: "on one machine a power failure takes the reservation of zxids, and tokens come back", where: "–",
			edits: []edit{{"zkserver/commit.go", "\to.batch.lasting = true", "\to.batch.lasting = false"}},
			pkg:   pkg, tests: []string{"TestOneMachineKeepsWhatLasts"},
		},
		{
			number: 217, bug: "other machines are served before what was answered is durable", where: "–",
			edits: []edit{{"zkserver/server.go", "\t\tb.changes.PutCeiling(s.owner.ceiling)", "\t\t"}},
			pkg:   pkg, tests: []string{"TestOneMachineSyncsWhatWasAnsweredBeforeOthersCome"},
		},
		{
			number: 218, bug: "a restart of the machine ends the sessions of clients of other machines", where: "–",
			edits: []edit{{"zkserver/session.go", "case !meta.Restarted || !sess.local:", "case !meta.Restarted || !sess.local && !s.cfg.OneMachine:"}},
			pkg:   pkg, tests: []string{"TestOneMachineLeavesTheSessionsOfOthers"},
		},
		{
			number: 219, bug: "sessions of processes that a restart of the machine has ended live on", where: "–",
			edits: []edit{{"zkserver/session.go", "case !meta.Restarted || !sess.local:", "case true || !meta.Restarted || !sess.local:"}},
			pkg:   pkg, tests: []string{"TestOneMachineKeepsWhatLasts", "TestOneMachineLeavesTheSessionsOfOthers"},
		},
		{
			number: 221, bug: "a power failure brings the session of another machine back, which had ended", where: "ours, before it was released",
			edits: []edit{{"zkserver/ending.go", "\t\to.batch.lasting = true\n\t}\n\tif more {", "\t\to.batch.lasting = false\n\t}\n\tif more {"}},
			pkg:   pkg, tests: []string{"TestOneMachineKeepsTheEndOfASessionOfOthers"},
		},
		{
			number: 222, bug: "a client is connected to the host of a directory that was removed", where: "ours, before it was released",
			edits: []edit{{"zklocal/store.go", "if host == nil || !id.isOf(host.lock.f) {", "if host == nil {"}},
			pkg:   "zklocal", tests: []string{"TestClientsOfTheHostsProcessTalkOverMemory"},
		},
		{
			number: 246, bug: "the owner waits for the disk while a journal begins", where: "ours, before it was released",

			edits: []edit{{"zkserver/commit.go", "b.changes.SyncLater && !s.store.Waits():", "b.changes.SyncLater:"}},
			pkg:   pkg, tests: []string{"TestOneMachineAnswersWhileAJournalBegins"},
		},
		{
			number: 247, bug: "a journal does not say that its next commit waits", where: "–",

			edits: []edit{{"zkserver/internal/store/journal.go", "return j.due || !j.SyncsLater()", "return !j.SyncsLater()"}},
			pkg:   pkg, tests: []string{"TestOneMachineAnswersWhileAJournalBegins"},
		},
		{
			number: 248, bug: "sessions of others live, and batches are not synced", where: "–",

			edits: []edit{{"zkserver/commit.go", " && s.owner.others == 0 ", " && s.owner.others >= 0 "}},
			pkg:   pkg, tests: []string{"TestOneMachineCrashImages"},
		},
		{
			number: 249, bug: "zxids come back after a planned stop", where: "ours, before it was released",

			edits: []edit{{"zkserver/session.go", "meta.Secret, meta.Ceiling, meta.Ceiling", "meta.Secret, meta.Ceiling-1<<16, meta.Ceiling"}},
			pkg:   pkg, tests: []string{"TestZxidsGoOnAfterAPlannedStop"},
		},
		{
			number: 250, bug: "all sessions that expire together end in one batch", where: "–",

			edits: []edit{{"zkserver/ending.go", "\t\tif s.batchFull() {\n\t\t\treturn // the others", "\t\tif false {\n\t\t\treturn // the others"}},
			pkg:   pkg, tests: []string{"TestSessionsThatExpireTogetherEndInPortions"},
		},
		{
			number: 251, bug: "all sessions that a restart ends end in one batch", where: "–",

			edits: []edit{{"zkserver/ending.go", "\t\t\tif !s.batchFull() {\n\t\t\t\tcontinue", "\t\t\tif true {\n\t\t\t\tcontinue"}},
			pkg:   pkg, tests: []string{"TestSessionsThatARestartEndsEndInPortions"},
		},
	}
}
