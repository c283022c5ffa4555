package mutants

// ofTellings are bugs of notifications that are told in portions, see zkserver/internal/tree/telling.go.
func ofTellings() []mutant {
	const (
		pkg  = "zkserver"
		tree = "zkserver/internal/tree"
	)
	return []mutant{
		{
			number: 1500, bug: "a client gets an answer before the notifications of earlier writes", where: "–",
			edits: []edit{{"zkserver/telling.go", "\tt.CatchUp(c.id)\n\ts.stageEvents()\n", ""}},
			pkg:   pkg, tests: []string{"TestNotificationsComeBeforeAnswers", "TestManyWatchersAreToldInPortions"},
		},
		{
			number: 1501, bug: "a write with few watchers notifies them before the notifications of earlier writes", where: "–",
			edits: []edit{{tree + "/telling.go", "\tif len(t.tellings) > 0 {\n\t\tfor _, tr := range t.triggers {", "\tif false {\n\t\tfor _, tr := range t.triggers {"}},
			pkg:   tree, tests: []string{"TestTellingsChangeNothingForAWatcher", "TestFewWatchersAreToldAtOnce"},
		},
		{
			number: 1502, bug: "the watchers that are left after a portion are forgotten", where: "–",
			edits: []edit{{tree + "/telling.go", "\t\t\t\tt.portion = 0 // as many", "\t\t\t\thead.left = nil\n\t\t\t\tt.portion = 0 // as many"}},
			pkg:   tree, tests: []string{"TestTellingsChangeNothingForAWatcher", "TestTellingHasPortions"},
		},
		{
			number: 1503, bug: "all watchers of a write are notified in one go", where: "ours, until d7d079e",
			edits: []edit{{tree + "/telling.go", "if t.portion >= t.most {\n\t\t\t\tt.portion", "if false {\n\t\t\t\tt.portion"}},
			pkg:   pkg, tests: []string{"TestManyWatchersAreToldInPortions"},
		},
		{
			number: 1504, bug: "a one-shot watch fires for each write of a transaction", where: "–",
			edits: []edit{{tree + "/telling.go", "len(m.events) == 0 || !k.kind.oneShot()", "true"}},
			pkg:   tree, tests: []string{"TestTellingsChangeNothingForAWatcher"},
		},
		{
			number: 1505, bug: "a one-shot watch stays when its event is told in a portion", where: "–",
			edits: []edit{{tree + "/telling.go", "\t\tt.watches.remove(by, k)\n", "\t\t_ = k\n"}},
			pkg:   tree, tests: []string{"TestTellingsChangeNothingForAWatcher"},
		},
		{
			number: 1506, bug: "events of a transaction are told in the order of the watches", where: "–",
			edits: []edit{{tree + "/telling.go", "\t\tslices.Sort(hits)\n", ""}},
			pkg:   tree, tests: []string{"TestTellingsChangeNothingForAWatcher"},
		},
		{
			number: 1507, bug: "a watch hears of a write that was before it", where: "–",
			edits: []edit{{tree + "/telling.go", "\tt.caughtUp[by] = t.newest\n", ""}},
			pkg:   tree, tests: []string{"TestTellingsChangeNothingForAWatcher"},
		},
		{
			number: 1508, bug: "a writer gets its answer before the notifications of its own write", where: "–",
			edits: []edit{{"zkserver/telling.go", "\t\tif c != nil {\n\t\t\to.tree.CatchUp(c.id)\n", "\t\tif false {\n"}},
			pkg:   pkg, tests: []string{"TestNotificationsComeBeforeTheEndOfTheirSession"},
		},
		{
			number: 1509, bug: "a client that is behind takes as long as all its notifications", where: "–",
			edits: []edit{{"zkserver/telling.go", "\tif t.Behind(c.id) {\n", "\tif false {\n"}},
			pkg:   pkg, tests: []string{"TestManyWatchersAreToldInPortions"},
		},
		{
			number: 1510, bug: "writes with many watchers do not wait for each other's notifications", where: "–",
			edits: []edit{{"zkserver/telling.go", "t.Watchers(r.write.Path) > fewTold || ", ""}},
			pkg:   pkg, tests: []string{"TestManyWatchersAreToldInPortions"},
		},
		{
			number: 1511, bug: "notifications may collect without a bound", where: "–",
			edits: []edit{{"zkserver/telling.go", "s.owner.tree.Untold() > mostUntold", "false"}},
			pkg:   pkg, tests: []string{"TestTooManyNotificationsHoldWritesUp"},
		},
	}
}
