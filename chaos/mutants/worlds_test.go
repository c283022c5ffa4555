package mutants

// ofWorlds are those of detached locks, reservations and turns, on servers that are behind and in the simulation.
func ofWorlds() []mutant {
	return []mutant{
		{
			number: 760, bug: "Unlock of a detached lock believes a server that is behind, and the lock stays held", where: "ours, until a reader found it",
			edits: []edit{{"list.go", "err = queue.BehindWrite(ctx, c, path, func() (err error) {\n\t\tentries, err", "err = zk.Retry(ctx, func() (err error) {\n\t\tentries, err"}},
			tests: []string{"TestUnlockAtAServerThatIsBehind"},
		},
		{
			number: 761, bug: "a turn is given to holders that share a node, and each but the first is done", where: "ours, until a reader found it",
			edits: []edit{{"hold.go", "case l.handoffs > 0 || l.keep > 0:", "case l.handoffs > 0 && l.keep > 0:"}},
			pkg:   "once", tests: []string{"TestTurnNeedsANodeOfItsOwn"},
		},
		{
			number: 762, bug: "a session that ends while a directory is made is no loss of the lock", where: "ours, until a reader found it",
			edits: []edit{{"hold.go", "// see transact\n\t\terr = fmt.Errorf(\"%w: %w\", ErrLost, err)", "// see transact\n\t\t_ = ErrLost"}},
			pkg:   "once", tests: []string{"TestLossWhileADirectoryIsMade"},
		},
		{
			number: 763, bug: "a caller that has given up a reserved lock hears of a loss instead of its cause", where: "ours, until a reader found it",
			edits: []edit{{"reserve/locker.go", "err = context.Cause(ctx) // the caller", "_ = ctx // the caller"}},
			pkg:   "reserve", tests: []string{"TestReservedLockThatIsLostAndNotAwaited"},
		},
		{
			number: 764, bug: "Break believes a server that is behind", where: "–",
			edits: []edit{{"revoke.go", "errors.Is(err, errNobody) { // or", "errors.Is(err, errNobody) && path == \"\" { // or"}, {"revoke.go", "err = queue.Barrier(ctx, session, path)", "err = session.Sync(ctx, path)"}},
			tests: []string{"TestBreakAtAServerThatIsBehind"},
		},
		{
			number: 765, bug: "the end of a reservation believes a server that is behind", where: "–",
			edits: []edit{{"reserve/reservation.go", "err := queue.BehindWrite(ctx, c, path, func() error {", "err := zk.Retry(ctx, func() error {"}},
			pkg:   "reserve", tests: []string{"TestEndAtAServerThatIsBehind"},
		},
		{
			number: 766, bug: "a lock is granted when half of its reservation is over, in the simulation", where: "–",
			edits: []edit{{"reserve/locker.go", "r.Until.Sub(r.From) - age", "r.Until.Sub(r.From)/2 - age"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfReservations"},
		},
		{
			number: 767, bug: "a detached lock counts as unlocked when the answer was lost, in the simulation", where: "–",
			edits: []edit{{"detached.go", "\t\tdoubt = doubt || zk.MayHaveHappened(err)\n", "\t\tdoubt = true\n\t\treturn nil\n"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfDetached"},
		},
		{
			number: 768, bug: "a period ends after half of it, in the simulation", where: "–",
			edits: []edit{{"once/call.go", "time.Millisecond >= j.period", "time.Millisecond >= j.period/2"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfTurns"},
		},
		{
			number: 769, bug: "each holder has a turn of a key that is done, in the simulation", where: "–",
			edits: []edit{{"once/turn.go", "last := c.counts(seen, h.place); last != nil", "last := c.counts(seen, h.place); last != nil && c.period > 0"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfTurns"},
		},
		{
			number: 770, bug: "a detached lock that may be held is not looked for, in the simulation", where: "–",
			edits: []edit{{"detached.go", "\t\texpires, err = d.settle(ctx, &change, c, p.Session.Timeout(), err)\n", "\t\t_ = d.settle\n"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfDetached"},
		},
	}
}
