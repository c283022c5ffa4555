package mutants

// ofNeeds are those of waits for several permits, and of old waits in a deadlock.
func ofNeeds() []mutant {
	return []mutant{
		{
			number: 1673, bug: "a wait for several permits is taken for a wait for one: its deadlock lasts", where: "ours, until 29 November",
			edits: []edit{{"internal/locks/nodes.go", "Needs: note.Needs, ", ""}},
			pkg:   "deadlock", tests: []string{"TestOneVictimInEachCycle", "TestACycleOverTheQueueOfASemaphore"},
		},
		{
			number: 1674, bug: "a waiter for slots does not note how many it needs: its deadlock lasts", where: "ours, until 29 November",
			edits: []edit{{"turnstile.go", "l.note.Needs = n", "l.note.Needs = 1"}},
			pkg:   "deadlock", tests: []string{"TestOneVictimInEachCycle", "TestACycleOverTheQueueOfASemaphore"},
		},
		{
			number: 1675, bug: "a waiter for free permits, behind one that needs more, is in no cycle", where: "–",
			edits: []edit{{"internal/waitgraph/cycles.go", "return s.lacking(w.Lock)[w.Place]", "return -1"}},
			pkg:   "internal/waitgraph", tests: []string{"TestCycles", "TestRandomStates"},
		},
		{
			number: 1676, bug: "permits are given to small waiters ahead of a large one: a deadlock is missed", where: "–",
			edits: []edit{{"internal/waitgraph/solver.go", "if s.Locks[lock].lacks(i, s.free[lock]) > 0 {\n\t\t\tbreak", "if s.Locks[lock].lacks(i, s.free[lock]) > 0 {\n\t\t\tcontinue"}},
			pkg:   "internal/waitgraph", tests: []string{"TestCycles", "TestRandomStates"},
		},
		{
			number: 1677, bug: "each attempt at a lock makes every waiter that holds it read all locks", where: "ours, until 29 November",
			edits: []edit{{"internal/cyclewatch/watch.go", "if !w.known[dir][name] {", "if !w.known[dir][\"\"] {"}, {"internal/cyclewatch/watch.go", "for name := range names {", "for range names {"}},
			pkg:   "internal/cyclewatch", tests: []string{"TestAttemptsCostNoReadings"},
		},
		{
			number: 1678, bug: "an old wait on a busy lock is told of its deadlock after five seconds", where: "ours, until 29 November",
			edits: []edit{{"internal/cyclewatch/watch.go", "burst, earn = 20, 2 * time.Second", "burst, earn = 20, 5 * time.Second"}},
			pkg:   "internal/cyclewatch", tests: []string{"TestAnOldWaitOnABusyLockIsTold"},
		},
		{
			number: 1679, bug: "a waiter is told minutes later that its deadlock is over", where: "ours, while it was written",
			edits: []edit{{"internal/cyclewatch/watch.go", "if w.told != nil { // it may be over", "if w.told != nil && len(w.changes) == 0 {"}},
			pkg:   "internal/cyclewatch", tests: []string{"TestTheEndOfACycleIsTold"},
		},
	}
}
