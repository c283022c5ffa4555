package mutants

// ofCycles are those of deadlocks that end: package deadlock and --on-deadlock.
func ofCycles() []mutant {
	return []mutant{
		{
			number: 1660, bug: "the oldest wait of a cycle gives up, as it is about to get its lock", where: "–",
			edits: []edit{{"internal/waitgraph/cycles.go", "cmp.Compare(p.Node, c.Yielder.Node)) > 0 {", "cmp.Compare(p.Node, c.Yielder.Node)) < 0 {"}},
			pkg:   "deadlock", tests: []string{"TestOneVictimInEachCycle"},
		},
		{
			number: 1661, bug: "every waiter of a cycle that may give up does so", where: "–",
			edits: []edit{{"internal/cyclewatch/watch.go", "f.Victim = y.Session == w.session && strings.HasPrefix(y.Node, w.Place)", "f.Victim = y != nil"}},
			pkg:   "deadlock", tests: []string{"TestOneVictimInEachCycle"},
		},
		{
			number: 1662, bug: "the youngest place is the victim, also one whose client never gives up: the cycle lasts", where: "–",
			edits: []edit{{"internal/waitgraph/cycles.go", "!in || !p.Yields {", "!in {"}},
			pkg:   "deadlock", tests: []string{"TestOneVictimInEachCycle"},
		},
		{
			number: 1663, bug: "the node of a waiter does not say that it gives up: the cycle lasts", where: "–",
			edits: []edit{{"lend.go", "o.note.Yields, o.detect = true, detect", "o.note.Yields, o.detect = false, detect"}},
			pkg:   "deadlock", tests: []string{"TestOneVictimInEachCycle"},
		},
		{
			number: 1664, bug: "a lock that another goroutine of the client holds counts as the caller's: a wait that would end gives up", where: "–",
			edits: []edit{{"internal/cyclewatch/watch.go", "&& !slices.Contains(w.Held, p.Node) {", "&& len(w.Held) > len(p.Node) {"}},
			pkg:   "deadlock", tests: []string{"TestALockOfAnotherCallerDoesNotCount"},
		},
		{
			number: 1665, bug: "a wait gives up in a cycle that may end by itself, since a session in it has several threads", where: "–",
			edits: []edit{{"internal/waitgraph/cycles.go", "if len(c.Threads) > 0 {", "if len(c.Threads) > len(c.Owners) {"}},
			pkg:   "internal/waitgraph", tests: []string{"TestTheYoungestOfThoseThatYield"},
		},
		{
			number: 1666, bug: "the locks that a MultiLock has already count as nobody's: its deadlock lasts", where: "–",
			edits: []edit{{"multilock.go", "context.WithValue(waitCtx, taken{}, slices.Clip(held))", "context.WithValue(waitCtx, taken{}, held[:0])"}},
			pkg:   "deadlock", tests: []string{"TestTheEarlierLocksOfAMultiLockCount"},
		},
		{
			number: 1667, bug: "the locks beside a semaphore are not read by a caller that waits for its permits: its deadlock lasts", where: "–",
			edits: []edit{{"lock.go", "wait.Locks[0] = strings.TrimSuffix(l.Path, l.Grammar.Semaphore.Turnstile)", "_ = strings.TrimSuffix"}},
			pkg:   "deadlock", tests: []string{"TestLocksInSeveralDirectories"},
		},
		{
			number: 1668, bug: "a caller at the head of a semaphore's queue does not look for deadlocks: it waits for ever", where: "–",
			edits: []edit{{"turnstile.go", "ctx, stop = s.turnstile.watched(ctx, turn.first())", "stop = func() {}"}},
			pkg:   "deadlock", tests: []string{"TestOneVictimInEachCycle"},
		},
		{
			number: 1669, bug: "an agent in a deadlock is not told what to release", where: "–",
			edits: []edit{{"internal/cli/mcp/holds.go", "return t.Token == token", "return t.Token > token"}},
			pkg:   "cmd/holdfast", tests: []string{"TestAnAgentInADeadlockIsTold"},
		},
		{
			number: 1670, bug: "run that was the victim of a deadlock exits with 125, like one that has failed", where: "–",
			edits: []edit{{"internal/cli/term/fault.go", "own.Code != ExitOverdue && own.Code != ExitDeadlock", "own.Code != ExitOverdue"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^deadlock_fail$"},
		},
		{
			number: 1671, bug: "Detect with WithValue is accepted: the node has no mark, and the cycle lasts", where: "–",
			edits: []edit{{"options.go", "o.given & (setValue | setHandoff | setKeep); o.given&setDetection != 0", "o.given & (setHandoff | setKeep); o.given&setDetection != 0"}},
			pkg:   "deadlock", tests: []string{"TestOptionsThatHideTheMarkAreRefused"},
		},
		{
			number: 1672, bug: "a waiter gives its readings up before a slow server has answered: the cycle lasts", where: "ours, while it was written",
			edits: []edit{{"internal/cyclewatch/watch.go", "patience = 30 * time.Second", "patience = 300 * time.Millisecond"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfDeadlocks"},
		},
	}
}
