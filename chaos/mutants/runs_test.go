package mutants

// ofRuns are those of what run does once, keeps after its end, and tells.
func ofRuns() []mutant {
	return []mutant{
		{
			number: 610, bug: "a reservation is not seen by a waiter that was in the queue before it was made", where: "–",
			edits: []edit{{"reserve.go", "\tif r == nil || err != nil || r.Token == p.Token {", "\tif r == nil || err != nil || r.Token <= p.Token && p.WaitedFor() != \"\" || r.Token == p.Token {"}},
			tests: []string{"TestReservationHoldsUpTheQueue"},
		},
		{
			number: 611, bug: "a holder reserves a lock that it has lost", where: "a tombstone that is written after the run",
			edits: []edit{{"reserve.go", "\t\t\tresults, err = h.commit(ctx, ops)\n", "\t\t\tresults, err = h.first().Session.Multi(ctx, ops...)\n"}},
			tests: []string{"TestReserveAfterTheLoss"},
		},
		{
			number: 612, bug: "a waiter at the head gives up when its session ends", where: "–",
			edits: []edit{{"reserve.go", "\t\tcase ctx.Err() == nil && (errors", "\t\tcase ctx.Err() != nil && (errors"}},
			tests: []string{"TestReservationOutlivesItsWaiter"},
		},
		{
			number: 613, bug: "TryLock takes a lock that is reserved", where: "flock, consul lock: a job of a late clock runs twice",
			edits: []edit{{"reserve.go", "\t\t\tcase !patience:\n\t\t\t\treturn r\n", "\t\t\tcase !patience:\n"}},
			tests: []string{"TestReservationOutlivesItsHolder", "TestReservationsDoNotOverlap"},
		},
		{
			number: 614, bug: "a period counts from the moment when the lock is acquired", where: "–",
			edits: []edit{{"once_turn.go", "Began: h.first().Ctime()", "Began: h.first().At(time.Now())"}},
			tests: []string{"TestTurnWithinCountsFromTheQueue"},
		},
		{
			number: 615, bug: "run records a job as done that has failed", where: "a marker file that is written before the job",
			edits: []edit{{"cmd/holdfast/run.go", "\tcase out.Code == 0 && !out.Lost:", "\tcase !out.Lost:"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^run_once$"},
		},
		{
			number: 616, bug: "a program in Go gets the outer command's variables", where: "holdfast before this change",
			edits: []edit{{"cmd/holdfast/run.go", "return strings.HasPrefix(inherited, name+\"=\")", "return inherited == name"}},
			pkg:   "cmd/holdfast", tests: []string{"TestVariablesOfTheCommandOccurOnce"},
		},
	}
}
