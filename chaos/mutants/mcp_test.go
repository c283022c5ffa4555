package mutants

// ofMCP are those of the locks for coding agents.
func ofMCP() []mutant {
	const agent, cmd = "internal/cli/mcp", "cmd/holdfast"
	return []mutant{
		{
			number: 856, bug: "a lock that was acquired by a cancelled call stays held, though its client knows no id", where: "–",
			edits: []edit{{"internal/cli/mcp/stream.go", "if request.undo != nil {", "if false {"}},
			pkg:   agent, tests: []string{"TestACancelledCallIsUndone"},
		},
		{
			number: 857, bug: "the calls of a client that has gone go on", where: "–",
			edits: []edit{{"internal/cli/mcp/endpoint.go", "r, err := run(ctx, &toolCall{", "r, err := run(context.WithoutCancel(ctx), &toolCall{"}},
			pkg:   agent, tests: []string{"TestAConversationEndsWithItsClient"},
		},
		{
			number: 858, bug: "nobody tells the agent that its lock is lost", where: "–",
			edits: []edit{{"internal/cli/mcp/holds.go", "holdfast.ErrLost) && !o.over() && o.forget(mine) {", "holdfast.ErrLost) && o.over() && o.forget(mine) {"}},
			pkg:   cmd, tests: []string{"TestAnAgentIsToldOfALossAndOfARequest"},
		},
		{
			number: 859, bug: "a lease does not exclude what is below it", where: "–",
			edits: []edit{{"internal/cli/mcp/claim.go", "\tcase k.isLease:\n", "\tcase k.isLease && k.shared:\n"}},
			pkg:   cmd, tests: []string{"TestLeasesExcludeWhatIsAboveAndBelow"},
		},
		{
			number: 860, bug: "a symbolic link leads around a lease", where: "–",
			edits: []edit{{"internal/cli/mcp/paths.go", "full = realPath(filepath.Clean(full))", "full = filepath.Clean(full)"}},
			pkg:   cmd, tests: []string{"TestLeasesExcludeWhatIsAboveAndBelow"},
		},
		{
			number: 861, bug: "a lease that waits for a holder above it is listed as held", where: "–",
			edits: []edit{{"internal/cli/mcp/list.go", "l.Queue[i].Held = false", "_ = i"}},
			pkg:   cmd, tests: []string{"TestLeasesExcludeWhatIsAboveAndBelow"},
		},
		{
			number: 862, bug: "an agent waits for the lock that it holds itself", where: "–",
			edits: []edit{{"internal/cli/mcp/take.go", "\tif own := a.holds.conflicting(k); own != nil {\n\t\treturn heldByYou(k, own), nil\n\t}\n\tif err", "\tif own := a.holds.conflicting(k); own != nil && k.wait < 0 {\n\t\treturn heldByYou(k, own), nil\n\t}\n\tif err"}},
			pkg:   cmd, tests: []string{"TestAgentsAndCommandsShareALock"},
		},
		{
			number: 863, bug: "a deadlock with the agent's own locks is not told", where: "–",
			edits: []edit{{"internal/cli/mcp/blockers.go", "b.cycle = true", "b.cycle = false"}},
			pkg:   cmd, tests: []string{"TestBlockersFollowTheChain"},
		},
		{
			number: 865, bug: "mcp dies of SIGPIPE, and releases nothing, if its client has gone before its answer", where: "–",
			edits: []edit{{"internal/cli/mcp/mcp.go", "\t\t\tsupervise.SurviveBrokenPipe() //", "\t\t\t_ = supervise.SurviveBrokenPipe //"}},
			pkg:   cmd, tests: []string{"TestAnAgentThatEndsReleasesItsLocks"},
		},
		{
			number: 866, bug: "an agent whose calls fail is not told that its lock is lost", where: "–",
			edits: []edit{{"internal/cli/mcp/news.go", "return nil, errors.New(text + err.Error())", "return nil, err"}},
			pkg:   cmd, tests: []string{"TestAnAgentIsToldOfALossAndOfARequest"},
		},
	}
}
