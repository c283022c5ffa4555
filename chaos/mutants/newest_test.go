package mutants

// ofTheNewest are bugs of places that make room for newer ones (WithSupersede, WithQueueMax).
func ofTheNewest() []mutant {
	const queue = "internal/queue/supersede.go"
	return []mutant{
		{
			number: 1600, bug: "a newcomer removes the holder, too", where: "–",
			edits: []edit{{queue, "if o.arrived != 0 && o.waits {", "if o.arrived != 0 {"}},
			tests: []string{"TestTheNewestTakesThePlaceOfThoseOfItsSortThatWait"},
		},
		{
			number: 1601, bug: "a newcomer removes waiters that are not of its sort", where: "–",
			edits: []edit{{queue, "ok && r.Err == nil && n.Sort == sort {", "(ok || true) && r.Err == nil {"}},
			tests: []string{"TestTheNewestTakesThePlaceOfThoseOfItsSortThatWait", "TestTheOldestMakesRoom"},
		},
		{
			number: 1602, bug: "the newest makes room for the older ones", where: "–",
			edits: []edit{{queue, "o.arrived > c.arrival.First && (last", "o.arrived != 0 && o.arrived < c.arrival.First && (last"}},
			tests: []string{"TestOneFollowsAndItIsTheNewest", "TestTheTurnGoesToTheNewest"},
		},
		{
			number: 1603, bug: "a superseded waiter does not say by whom", where: "–",
			edits: []edit{{"internal/queue/arrival.go", "return over{Through: through, Token: a.First, Owner: cut(a.Owner), Reason: cut(a.Reason)}", "return over{Through: through, Token: a.First}"}},
			tests: []string{"TestTheNewestTakesThePlaceOfThoseOfItsSortThatWait", "TestAWaiterThatWasCutOffLearnsWhoHasItsPlace"},
		},
		{
			number: 1604, bug: "a waiter is removed also if it has become the holder", where: "–",
			edits: []edit{{queue, "ops = []zk.Op{zk.CheckOp(c.node(c.queue[0].Name), zk.AnyVersion), zk.CheckOp(", "ops = []zk.Op{zk.CheckOp("}},
			tests: []string{"TestAHolderIsNotDroppedFromAFullQueue"},
		},
		{
			number: 1605, bug: "a waiter that has lost its session counts as new", where: "–",
			edits: []edit{{queue, "a.First = cmp.Or(a.First, p.czxid)", "a.First = cmp.Or(p.czxid, a.First)"}},
			tests: []string{"TestAnOlderArrivalNeverFollowsTheNewest"},
		},
		{
			number: 1606, bug: "a waiter whose turn has come looks for no newer one, and records nothing", where: "–",
			edits: []edit{{queue, "\treturn p.makeRoom(ctx, true)\n", "\treturn nil\n"}},
			tests: []string{"TestTheTurnGoesToTheNewest", "TestAnOlderArrivalNeverFollowsTheNewest"},
		},
		{
			number: 1607, bug: "a superseded waiter far behind learns it only when its turn comes", where: "–",
			edits: []edit{{queue, "if err = p.watchOwn(ctx); err == nil {", "if err == nil {"}},
			tests: []string{"TestTheNewestTakesThePlaceOfThoseOfItsSortThatWait", "TestTheOldestMakesRoom"},
		},
		{
			number: 1608, bug: "a waiter that an operator has removed says that it was superseded", where: "–",
			edits: []edit{{queue, "readErr == nil && ok && o.Through >= a.First {", "readErr == nil && ok {"}},
			tests: []string{"TestABrokenWaiterIsNotSuperseded"},
		},
		{
			number: 1609, bug: "a caller that waits for the end of a reservation does not make room", where: "–",
			edits: []edit{{"reserve/locker.go", "if err := lend.Yield(ctx, h); err != nil {", "if err := lend.Yield(ctx, h); err != nil && seen == nil {"}},
			tests: []string{"TestAReservedLockGoesToTheNewest"},
		},
		{
			number: 1610, bug: "one more than the limit waits", where: "–",
			edits: []edit{{queue, "n := waiting + 1 - a.Max", "n := waiting - a.Max"}},
			tests: []string{"TestAtMostSoManyWait", "TestTheOldestMakesRoom"},
		},
		{
			number: 1611, bug: "a TryLock takes the place of waiters", where: "–",
			edits: []edit{{queue, "if err == nil && patience && !p.ahead.Nobody() {", "if err == nil && !p.ahead.Nobody() {"}},
			tests: []string{"TestTryLockTakesNobodysPlace"},
		},
		{
			number: 1612, bug: "the status file calls a superseded run busy", where: "–",
			edits: []edit{{"internal/cli/hold/status_file.go", "s.Outcome = outcomeSuperseded", "s.Outcome = outcomeBusy"}},
			pkg:   "internal/cli/hold", tests: []string{"TestOutcomesOfTheStatusFile"},
		},
		{
			number: 1613, bug: "WithSupersede is taken together with WithKeep, whose node is of several callers", where: "–",
			edits: []edit{{"options.go", "setSupersede | setQueueMax | setValue | setHandoff | setKeep\n\n// takes", "setSupersede | setQueueMax | setValue | setHandoff\n\n// takes"}},
			tests: []string{"TestSupersedeRefusesWhatDoesNotGoTogether"},
		},
		{
			number: 1614, bug: "nodes of another sort are removed, in the simulation", where: "–",
			edits: []edit{{queue, "r.Err == nil && n.Sort == sort {", "r.Err == nil && n.Owner != \"\" {"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfTheNewest"},
		},
		{
			number: 1615, bug: "a waiter that has lost its session counts as new, in the simulation", where: "–",
			edits: []edit{{queue, "a.First = cmp.Or(a.First, p.czxid)", "a.First = cmp.Or(p.czxid, a.First)"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfTheNewest"}, args: []string{"-seeds=1000"},
		},
		{
			number: 1616, bug: "a newcomer removes the holder, too, in the simulation", where: "–",
			edits: []edit{{queue, "if o.arrived != 0 && o.waits {", "if o.arrived != 0 {"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfTheNewest"},
		},
		{
			number: 1617, bug: "layouts that do not see each other's places share a record", where: "holdfast at 8bfafadd",
			edits: []edit{{"lock.go", "Layout: l.Grammar.Apart(), ", ""}},
			tests: []string{"TestQueuesOfOneDirectoryDoNotSupersedeEachOther"},
		},
		{
			number: 1618, bug: "the second node of a writer that has taken the read side counts as a waiter", where: "holdfast at 8bfafadd",
			edits: []edit{{queue, "waits: !second && (exclusive", "waits: (second || true) && (exclusive"}},
			tests: []string{"TestOnlyWaitersFillAQueue"},
		},
		{
			number: 1619, bug: "the directories of other locks among places that are numbers count as waiters", where: "holdfast at 8bfafadd",
			edits: []edit{{queue, "if p.Queue.Grammar.Bare() {", "if p.Queue.Grammar.Bare() && p.czxid == 0 {"}},
			tests: []string{"TestOnlyWaitersFillAQueue"},
		},
		{
			number: 1636, bug: "a superseded waiter that does not know of its node queues again as the newest", where: "holdfast at 8bfafadd",
			edits: []edit{{"internal/queue/join.go", "if a == nil || a.First != 0 ||", "if a == nil || a.First == 0 ||"}},
			tests: []string{"TestAWaiterThatDoesNotKnowOfItsNodeIsSuperseded"},
		},
		{
			number: 1637, bug: "a newcomer removes also other libraries' waiters", where: "–",
			edits: []edit{{queue, "ok && r.Err == nil && n.Sort == sort {", "(ok || true) && r.Err == nil {"}},
			pkg:   beside, tests: []string{"TestTheNewestBesideOtherLibraries"},
		},
		{
			number: 1638, bug: "a newcomer removes the holder, too, on an ensemble under faults", where: "–",
			edits: []edit{{queue, "if o.arrived != 0 && o.waits {", "if o.arrived != 0 {"}},
			pkg:   beside, tests: []string{"TestChaos"}, args: []string{"-minutes=0.3"},
		},
	}
}
