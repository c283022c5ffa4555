package mutants

// ofSeeing are those of the commands that show locks, and of the events of watch.
func ofSeeing() []mutant {
	return []mutant{
		{
			number: 630, bug: "watch says nothing of changes that it has missed", where: "–",
			edits: []edit{{"internal/lockwatch/tree.go", "missed != 0 {", "missed > 1<<30 {"}},
			pkg:   "internal/lockwatch", tests: []string{"TestWatchAfterALostConnection"},
		},
		{
			number: 631, bug: "watch takes every change since a lost connection for one that it has seen", where: "–",
			edits: []edit{{"internal/lockwatch/tree.go", "case m.neverHeld(p, t, gaps):", "case true:"}},
			pkg:   "internal/lockwatch", tests: []string{"TestWatchOfRandomClients"},
		},
		{
			number: 632, bug: "a client that leaves a semaphore's turnstile with its permits is said to have left", where: "–",
			edits: []edit{{"internal/lockwatch/watch.go", "w.model.deleted(a.Path, a.at, turn != nil)", "w.model.deleted(a.Path, a.at, false)"}},
			pkg:   "internal/lockwatch", tests: []string{"TestWatchKnowsSemaphores"},
		},
		{
			number: 633, bug: "a writer that becomes a reader is said to have released the lock", where: "–",
			edits: []edit{{"internal/lockwatch/report.go", "if (t == Acquired || t == Released) && p.info.known {", "if t == Gap {"}},
			pkg:   "internal/lockwatch", tests: []string{"TestWatchTellsWhatHappens"},
		},
		{
			number: 634, bug: "watch begins without a read after the persistent watch is set again", where: "–",
			edits: []edit{{"internal/lockwatch/watch.go", "\t\tcase errors.Is(a.Err, zk.ErrEventsMissed):\n\t\t\treturn w.resync(ctx)\n", "\t\tcase errors.Is(a.Err, zk.ErrEventsMissed):\n\t\t\tw.pending = w.pending[1:]\n\t\t\tcontinue\n"}},
			pkg:   "internal/lockwatch", tests: []string{"TestWatchAfterALostConnection"},
		},
		{
			number: 635, bug: "ls shows the turnstile of kazoo's semaphore as a lock", where: "ours, until issue 17",
			edits: []edit{{"internal/locks/find.go", "quiet[d] = true", "quiet[d] = d == path"}},
			pkg:   "internal/cli/see", tests: []string{"TestKazoosSemaphoreIsOneLock"},
		},
	}
}
