package mutants

// ofDevices are bugs of callers that acquire several slots at once.
func ofDevices() []mutant {
	script := []string{"-run=^TestScripts$/^run_slots$"}
	return []mutant{
		{
			number: 1640, bug: "callers of slots do not queue: the first for whom enough are free is served", where: "canhazgpu #3",
			edits: []edit{{"turnstile.go", "s.waiter(n).enter(ctx, names.Mutex, wait)", "s.waiter(n).enter(ctx, names.Read, wait)"}},
			tests: []string{"TestSmallCallersDoNotStarveALargeOne", "TestDevices"},
		},
		{
			number: 1655, bug: "a caller whose slot is taken after the look gives up", where: "–",
			edits: []edit{{"turnstile.go", "return nil, false, nil // the server that we have read from", "return nil, false, err // the server that we have read from"}},
			tests: []string{"TestSlotsAreTakenAllOrNone"},
		},
		{
			number: 1641, bug: "a caller of several slots is served as soon as one is free", where: "–",
			edits: []edit{{"turnstile.go", "case s.used(v)+n <= v.limit:", "case s.used(v)+1 <= v.limit:"}},
			tests: []string{"TestSeveralSlotsAtOnce", "TestSmallCallersDoNotStarveALargeOne"},
		},
		{
			number: 1642, bug: "a caller of several slots is served as soon as one is free, in the simulation", where: "–",
			edits: []edit{{"turnstile.go", "case s.used(v)+n <= v.limit:", "case s.used(v)+1 <= v.limit:"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfSlots"},
		},
		{
			number: 1643, bug: "a caller makes sure of the first of its slots alone", where: "–",
			edits: []edit{{"internal/queue/find.go", "slices.ContainsFunc(places, func", "slices.ContainsFunc(places[:1], func"}},
			tests: []string{"TestSlotThatIsRemovedBeforeItIsSeen"},
		},
		{
			number: 1644, bug: "a Hold knows the first of its slots alone", where: "–",
			edits: []edit{{"slots.go", "range h.tenures[i].Places {", "range h.tenures[i].Places[:1] {"}},
			tests: []string{"TestSeveralSlotsAtOnce", "TestDevices"},
		},
		{
			number: 1645, bug: "a caller gets all slots that it prefers, also more than it asks for", where: "–",
			edits: []edit{{"slots.go", "if !taken[number] && len(chosen) < n {", "if !taken[number] {"}},
			tests: []string{"TestSeveralSlotsAtOnce"},
		},
		{
			number: 1647, bug: "the slots of a Hold are in the order of the wishes", where: "–",
			edits: []edit{{"slots.go", "\tslices.Sort(chosen)\n", ""}},
			tests: []string{"TestSeveralSlotsAtOnce"},
		},
		{
			number: 1648, bug: "a MultiLock takes as many slots as it was asked for first", where: "–",
			edits: []edit{{"multilock.go", "lock: &l.s.semaphore.lock, strength: l.n", "lock: &l.s.semaphore.lock, strength: writeStrength"}},
			tests: []string{"TestSeveralSlotsAreOneHold"},
		},
		{
			number: 1649, bug: "only the first of several slots has a token", where: "–",
			edits: []edit{{"hold.go", "for _, p := range t.Places {\n\t\t\ttokens", "for _, p := range t.Places[:1] {\n\t\t\ttokens"}},
			tests: []string{"TestSeveralSlotsAreOneHold"},
		},
		{
			number: 1650, bug: "a holder of several slots watches the first alone", where: "–",
			edits: []edit{{"internal/tenure/tenure.go", "for i, p := range t.Places {\n\t\tgo t.watch", "for i, p := range t.Places[:1] {\n\t\tgo t.watch"}},
			tests: []string{"TestSeveralSlotsAreOneHold"},
		},
		{
			number: 1651, bug: "the command gets one of its several slots", where: "–",
			edits: []edit{{"internal/cli/hold/environment.go", "slotsText(h, \" \")}", "strconv.Itoa(h.Slot())}"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: script,
		},
		{
			number: 1652, bug: "run --slot takes one slot, whatever --permits says", where: "–",
			edits: []edit{{"internal/cli/hold/locker.go", "who...).Locker(f.permits, f.prefer...)", "who...).Locker(1, f.prefer...)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: script,
		},
		{
			number: 1653, bug: "--prefer-slots means nothing", where: "–",
			edits: []edit{{"internal/cli/hold/locker.go", "who...).Locker(f.permits, f.prefer...)", "who...).Locker(f.permits)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: script,
		},
		{
			number: 1654, bug: "a holder of several slots is shown as several holders", where: "–",
			edits: []edit{{"internal/locks/lock.go", "(p.Token == 0 || !seen[p.Token])", "true"}},
			pkg:   "internal/locks", tests: []string{"TestHoldersOfSeveral"},
		},
	}
}
