package mutants

// ofTheWaitGraph are those of holdfast graph.
func ofTheWaitGraph() []mutant {
	return []mutant{
		{
			number: 640, bug: "a waiter for a permit waits for all holders of permits, not for any", where: "–",
			edits: []edit{{"internal/waitgraph/solver.go", "\t\tif r.Permit {\n\t\t\ts.free[r.Lock] += sign\n\t\t}\n", ""}},
			pkg:   "internal/waitgraph",
			tests: []string{"TestCycles", "TestRandomStates"},
		},
		{
			number: 641, bug: "an owner whose waits have all ended stays in the graph", where: "–",
			edits: []edit{{"internal/waitgraph/solver.go", "if s.left[owner]--; s.left[owner] == 0 {", "if s.left[owner]--; s.left[owner] < 0 {"}},
			pkg:   "internal/waitgraph",
			tests: []string{"TestNoCycleWhereThereIsNone", "TestRandomStates"},
		},
		{
			number: 642, bug: "a cycle of two readings with different nodes is reported", where: "–",
			edits: []edit{{"internal/locks/deadlock.go", "waitgraph.Stable(suspects, again)", "again"}},
			pkg:   "internal/cli/graph",
			tests: []string{"TestCycleMustStandStill"},
		},
		{
			number: 1371, bug: "a waiter looks for a deadlock when its wait begins, and then rarely: it is told minutes later", where: "–",
			edits: []edit{{"internal/cyclewatch/watch.go", "if err != nil || maps.Equal(now, w.changes) {", "if err != nil || maps.Equal(now, now) {"}},
			pkg:   "internal/cli/deadlock",
			tests: []string{"TestPlantedDeadlocksAreTold"},
		},
		{
			number: 1372, bug: "a waiter looks at the queues of its own locks only: a cycle that is closed elsewhere is told minutes later", where: "–",
			edits: []edit{{"internal/waitgraph/reach.go", "if !seen[o] {", "if seen[o] {"}},
			pkg:   "internal/cli/deadlock",
			tests: []string{"TestPlantedDeadlocksAreTold"},
		},
		{
			number: 643, bug: "threads of two programs that contend for one lock are a deadlock", where: "–",
			edits: []edit{{"internal/waitgraph/graph.go", "case here[p.Session]:", "case here[p.Session] && p.Idle:"}},
			pkg:   "internal/waitgraph",
			tests: []string{"TestCycles"},
		},
		{
			number: 644, bug: "a command inside another command is taken for a stranger, so its deadlock is missed", where: "–",
			edits: []edit{{"internal/waitgraph/graph.go", "if p.Session == 0 || p.Within == 0 {", "if p.Session != 0 {"}},
			pkg:   "internal/waitgraph",
			tests: []string{"TestCycles"},
		},
		{
			number: 645, bug: "the victim's end leaves a cycle", where: "–",
			edits: []edit{{"internal/waitgraph/cycles.go", "\t\tif broken {", "\t\tif broken || !broken {"}},
			pkg:   "internal/waitgraph",
			tests: []string{"TestCycles", "TestRandomStates"},
		},
		{
			number: 646, bug: "workers of a Shards that wait for each other's shards are a deadlock", where: "–",
			edits: []edit{{"internal/locks/lock.go", "Idle: p.Member && l.idle,", "Idle: p.Unknown,"}},
			pkg:   "internal/locks",
			tests: []string{"TestShardsDoNotWait"},
		},
		{
			number: 647, bug: "the waiter for Curator's semaphore is taken for a holder of a permit", where: "–",
			edits: []edit{{"internal/locks/nodes.go", "\t\t\tl.Queue = slices.Delete(l.Queue, i, i+1)\n", ""}},
			pkg:   "internal/locks",
			tests: []string{"TestNodesOfOtherLibraries"},
		},
		{
			number: 594, bug: "the waiter for Curator's semaphore is taken for a holder of a permit if a limit is stored", where: "ours, until 23 November",
			edits: []edit{{"internal/queue/kind.go", "limit > 0 && len(permits) <= limit {", "limit > 0 {"}},
			pkg:   "internal/locks",
			tests: []string{"TestNodesOfOtherLibraries"},
		},
		{
			number: 595, bug: "List returns a permit that Curator's semaphore has not granted", where: "ours, until 23 November",
			edits: []edit{{"list.go", "\t\tentries = slices.Delete(entries, i, i+1)\n", ""}},
			tests: []string{"TestListLeavesOutPendingPermits"},
		},
		{
			number: 596, bug: "a lock that is only kept is part of a deadlock", where: "ours, until 23 November",
			edits: []edit{{"internal/waitgraph/lock.go", "p.Zxid}] && !p.Kept {", "p.Zxid}] {"}},
			pkg:   "internal/cli/graph",
			tests: []string{"TestKeptLockIsNoDeadlock"},
		},
		{
			number: 597, bug: "doctor's node is a lock of graph", where: "ours, until 23 November",
			edits: []edit{{"internal/locks/read.go", "strings.HasPrefix(name, queue.Probe) || ", ""}},
			pkg:   "internal/locks",
			tests: []string{"TestNodesOfOtherLibraries"},
		},
		{
			number: 598, bug: "bench leaves its nodes if their removal takes longer than the session timeout", where: "ours, until 23 November",
			edits: []edit{{"internal/cli/bench/ground.go", "func() { giveUp.Reset(at.patience) }", "func() {}"}},
			pkg:   "internal/cli/bench",
			tests: []string{"TestBenchRemovesManyNodesFromASlowServer"},
		},
		{
			number: 599, bug: "an error about a flag does not name it if the value is long", where: "ours, until 23 November",
			edits: []edit{{"internal/cli/program/program.go", "cmd.Name(), text) // report", "cmd.Name(), term.Cut(text, 250)) // report"}},
			pkg:   "cmd/holdfast",
			tests: []string{"TestBadInputIsExplained"},
		},
	}
}
