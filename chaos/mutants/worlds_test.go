package mutants

// ofWorlds are those of detached locks, reservations and turns, on servers that are behind and in the simulation.
func ofWorlds() []mutant {
	return []mutant{
		{
			number: 760, bug: "Unlock of a detached lock believes a server that is behind, and the lock stays held", where: "ours, until a reader found it",
			edits: []edit{{"detached.go", "if err == nil && node == \"\" { // the server", "if err == nil && node == \"\" && id == \"\" { // the server"}},
			tests: []string{"TestUnlockAtAServerThatIsBehind"},
		},
		{
			number: 761, bug: "a turn is given to holders that share a node, and each but the first is done", where: "ours, until a reader found it",
			edits: []edit{{"once_turn.go", "case h.tenures[0].lock.handoffs > 0 || h.tenures[0].lock.keep > 0:", "case h.tenures[0].lock.handoffs > 0 && h.tenures[0].lock.keep > 0:"}},
			tests: []string{"TestTurnNeedsANodeOfItsOwn"},
		},
		{
			number: 762, bug: "a session that ends while a directory is made is no loss of the lock", where: "ours, until a reader found it",
			edits: []edit{{"hold.go", "// see transact\n\t\terr = fmt.Errorf(\"%w: %w\", ErrLost, err)", "// see transact\n\t\t_ = ErrLost"}},
			tests: []string{"TestLossWhileADirectoryIsMade"},
		},
		{
			number: 763, bug: "a caller that has given up a reserved lock hears of a loss instead of its cause", where: "ours, until a reader found it",
			edits: []edit{{"reserve.go", "\t\tcase over: // the caller", "\t\tcase over && err == nil: // the caller"}},
			tests: []string{"TestReservedLockThatIsLostAndNotAwaited"},
		},
		{
			number: 764, bug: "Break believes a server that is behind", where: "–",
			edits: []edit{{"revoke.go", "errors.Is(err, errNobody) { // or", "errors.Is(err, errNobody) && path == \"\" { // or"}},
			tests: []string{"TestBreakAtAServerThatIsBehind"},
		},
		{
			number: 765, bug: "the end of a reservation believes a server that is behind", where: "–",
			edits: []edit{{"reserve.go", "\t\tif replaced() { // or", "\t\tif replaced() && doubt { // or"}},
			tests: []string{"TestBreakAtAServerThatIsBehind"},
		},
	}
}
