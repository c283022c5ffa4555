package mutants

// ofTheSlots are those of numbered places, and of several permits as one lock.
func ofTheSlots() []mutant {
	return []mutant{
		{
			number: 448, bug: "slots count on from the number of those that are taken", where: "–",
			edits: []edit{{"slots.go", "for lowest := 0;", "for lowest := len(taken);"}},
			tests: []string{"TestSlotsGiveTheLowestFreeNumber"},
		},
		{
			number: 449, bug: "nobody grants wishes for a slot", where: "–",
			edits: []edit{{"slots.go", "for _, number := range prefer {", "for _, number := range prefer[:0] {"}},
			tests: []string{"TestPreferredSlotIsGivenIfItIsFree", "TestRestartedProcessKeepsItsSlot"},
		},
		{
			number: 450, bug: "a wish reaches beyond the number of slots", where: "–",
			edits: []edit{{"slots.go", "number < min(v.limit, names.MaxSlot)", "number < names.MaxSlot"}},
			tests: []string{"TestPreferredSlotIsGivenIfItIsFree", "TestNumberOfSlotsChangesLive"},
		},
		{
			number: 451, bug: "slots beyond a lowered limit keep the others from being given", where: "–",
			edits: []edit{{"internal/queue/names/grammar.go", "\tif s.Slots {\n", "\tif false {\n"}},
			tests: []string{"TestNumberOfSlotsChangesLive"},
		},
		{
			number: 452, bug: "a slot that was taken after the look fails the caller", where: "–",
			edits: []edit{{"turnstile.go", "return nil, false, nil // the server that we have read", "return nil, false, err // the server that we have read"}},
			tests: []string{"TestSlotThatIsTakenAfterTheLookIsNotGivenTwice", "TestSlotOfTheSameSessionIsNotFoundInsteadOfOurs"},
		},
		{
			number: 453, bug: "a slot's node is ours if it is of our session, whichever attempt made it", where: "KAFKA-1387",
			edits: []edit{{"internal/queue/find.go", "(p.Unique || ReadNote(r.Data).ID == p.ID)", "(p.Unique || p.Queue.Kind == Slots || ReadNote(r.Data).ID == p.ID)"}},
			tests: []string{"TestSlotOfTheSameSessionIsNotFoundInsteadOfOurs"},
		},
		{
			number: 454, bug: "a release deletes whatever has the name of the slot", where: "zk-ruby #34, etcd #22082",
			edits: []edit{{"internal/queue/remove.go", "\t\tif !p.Unique {\n", "\t\tif !p.Unique && p.Queue.Kind != Slots {\n"}},
			tests: []string{"TestNoEndOfAHoldHitsTheNodeOfASuccessor"},
		},
		{
			number: 455, bug: "slots let in who was thrown out of their turnstile meanwhile", where: "Kleppmann 2016",
			edits: []edit{{"turnstile.go", "[]zk.Op{zk.DeleteOp(turn.Path(), zk.AnyVersion), ", "[]zk.Op{zk.CheckOp(s.lock.Path, zk.AnyVersion), "}},
			tests: []string{"TestSleeperAtTheTurnstileTakesNothing"},
		},
		{
			number: 456, bug: "a slot is taken under a limit that was changed meanwhile", where: "–",
			edits: []edit{{"turnstile.go", "zk.CheckOp(s.lock.Path, version)", "zk.CheckOp(s.lock.Path, zk.AnyVersion)"}},
			tests: []string{"TestAdmissionOnAnOldNumberFails"},
		},
		{
			number: 457, bug: "a slot whose transaction got no answer counts as not taken when the caller gives up", where: "CURATOR-462",
			edits: []edit{{"turnstile.go", "p.Sent(err == nil || zk.MayHaveHappened(err))", "p.Sent(err == nil)"}},
			tests: []string{"TestCancelledWaitLeavesNoNode"},
		},
		{
			number: 458, bug: "a slot that was found again after a lost answer is left behind, and another is taken", where: "CURATOR-335",
			edits: []edit{{"turnstile.go", "\t\t\t\t\tfound++\n", "\t\t\t\t\tp.Named(\"\")\n"}},
			tests: []string{"TestLostConnectionsAtAnyPointLeaveNoOrphan", "TestManyCallersUnderFaults"},
		},
		{
			number: 459, bug: "a holder writes into the node of its slot, which may be its successor's", where: "–",
			edits: []edit{{"internal/tenure/rewrite.go", "(p.Unique || !p.Exact)", "(p.Unique || !p.Exact || t.Kind == queue.Slots)"}},
			tests: []string{"TestSlotNodesAreNotRewritten"},
		},
		{
			number: 460, bug: "a caller at the turnstile is not told that a slot was released", where: "–",
			edits: []edit{{"turnstile.go", "\t\tleases = v.leases.C\n", "\t\tleases = nil\n"}},
			tests: []string{"TestAsManyHoldAsTheNumberSays"},
		},
		{
			number: 461, bug: "all slots are fenced as one resource", where: "–",
			edits: []edit{{"hold.go", "Path: p.Path(), Layout", "Path: t.Path, Layout"}},
			tests: []string{"TestSlotInAMultiLock"},
		},
		{
			number: 462, bug: "slots ignore options that they cannot honour", where: "–",
			edits: []edit{{"options.go", "\"a Slots\":     setNote", "\"a Slots\":     setReentrant | setValue | setNote"}},
			tests: []string{"TestOptionsThatAKindCannotHonourAreErrors"},
		},
		{
			number: 463, bug: "other kinds of lock take no notice of slots under their name", where: "–",
			edits: []edit{{"internal/queue/kind.go", "append(names.Semaphores(), names.Slots)", "names.Semaphores()"}},
			tests: []string{"TestKindsUnderOneNameExcludeOrRefuse", "TestErrKindSaysWhatIsWrong"},
		},
		{
			number: 464, bug: "List knows nothing of slots", where: "–",
			edits: []edit{{"list.go", "[]*names.Grammar{g, names.Slots}", "[]*names.Grammar{g}"}},
			tests: []string{"TestListShowsSlots"},
		},
		{
			number: 465, bug: "nobody compares the claimed number of slots with the stored one", where: "–",
			edits: []edit{{"turnstile.go", "case v.limit != 0 && s.limit != 0 && v.limit != s.limit:", "case false:"}},
			tests: []string{"TestNumberIsStoredAndVerified"},
		},
		{
			number: 466, bug: "a caller waits for a slot that its own context holds", where: "–",
			edits: []edit{{"turnstile.go", "case wait && s.lock.heldPermit(ctx)", "case false && s.lock.heldPermit(ctx)"}},
			tests: []string{"TestLockUnderItsOwnHoldIsADeadlock"},
		},
		{
			number: 467, bug: "permits are counted as they were before the wait at the turnstile", where: "–",
			edits: []edit{
				{"internal/queue/join.go", "if err == nil && a.Nobody() {", "if err == nil {"},
				{"turnstile.go", "if before != \"\" {\n\t\t\tswitch", "if before != \"\" && seen == nil {\n\t\t\tswitch"},
			},
			tests: []string{"TestPermitsAreCountedInTheTurn"},
		},
		{
			number: 468, bug: "a MultiLock takes the permits of a semaphore that it was given first", where: "–",
			edits: []edit{{"multilock.go", "lock: &l.s.lock, strength: l.n", "lock: &l.s.lock, strength: writeStrength"}},
			tests: []string{"TestMultiLockTakesTheMostPermits"},
		},
		{
			number: 469, bug: "the wait for a slot ends with its session", where: "CURATOR-595",
			edits: []edit{{"slots.go", "outlive(ctx, func() (*Hold, error) { return s.enter(ctx, n, prefer, true) })", "s.enter(ctx, n, prefer, true)"}},
			tests: []string{"TestEndOfASessionEndsHoldsAndNoWaits"},
		},
		{
			number: 470, bug: "whatever is in the directory of slots counts as a slot", where: "kazoo's Semaphore",
			edits: []edit{{"internal/queue/names/grammar.go", "return len(permits)", "return len(names)"}},
			tests: []string{"TestForeignChildrenAreNoContenders"},
		},
		{
			number: 471, bug: "slots count on from the number of those that are taken, in the simulation", where: "–",
			edits: []edit{{"slots.go", "for lowest := 0;", "for lowest := len(taken);"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfSlots"},
		},
		{
			number: 472, bug: "nobody grants wishes for a slot, in the simulation", where: "–",
			edits: []edit{{"slots.go", "for _, number := range prefer {", "for _, number := range prefer[:0] {"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfSlots"},
		},
		{
			number: 473, bug: "a wish reaches beyond the number of slots, in the simulation", where: "–",
			edits: []edit{{"slots.go", "number < min(v.limit, names.MaxSlot)", "number < names.MaxSlot"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfSlots"},
		},
		{
			number: 476, bug: "a watermark that is out of date fails the caller that takes a permit", where: "–",
			edits: []edit{{"turnstile.go", "\t\t\twatermark = nil\n", "\t\t\treturn nil, false, err\n"}},
			tests: []string{"TestTurnstileOfALongQueueGetsAWatermark"},
		},
		{
			number: 477, bug: "the turn goes on after the transaction that has removed its node", where: "–",
			edits: []edit{{"turnstile.go", "\t\t\tturn.concluded()\n", "\t\t\tturn.letGo(ctx)\n"}},
			tests: []string{"TestPermitsCostFewRoundTripsAndCommits"},
		},
		{
			number: 475, bug: "ls takes the directories of slots for locks", where: "–",
			edits: []edit{{"internal/locks/find.go", "names.Compile(names.Kazoo), names.Slots}", "names.Compile(names.Kazoo)}"}},
			pkg:   "internal/cli/see", tests: []string{"TestListShowsSlotsAsOneLock"},
		},
		{
			number: 474, bug: "a slot that was found again after a lost answer is left behind, in the simulation", where: "CURATOR-335",
			edits: []edit{{"turnstile.go", "\t\t\t\t\tfound++\n", "\t\t\t\t\tp.Named(\"\")\n"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfSlots"},
		},
	}
}
