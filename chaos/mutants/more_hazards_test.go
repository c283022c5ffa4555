package mutants

// ofMoreHazards are bugs for further tests of docs/contributing/hazards.md.
func ofMoreHazards() []mutant {
	return []mutant{
		{
			number: 355, bug: "nodes for Kazoo carry a uuid with dashes", where: "–",
			edits: []edit{{"internal/queue/names/layout.go", `Mutex: "{hex}__lock__", Write:`, `Mutex: "{uuid}__lock__", Write:`}},
			pkg:   "internal/queue/names", tests: []string{"TestLayoutsMakeTheNamesOfTheirLibraries"},
		},
		{
			number: 356, bug: "a layout by session reads names with any beginning", where: "–",
			edits: []edit{{"internal/queue/names/layout.go", `Exclusive: []string{"lock-*-"}`, `Exclusive: []string{"*-"}`}},
			pkg:   "internal/queue/names", tests: []string{"TestLayoutsReadNumbersAndKinds"},
		},
		{
			number: 357, bug: "a missing chroot is made without being asked for", where: "–",
			edits: []edit{{"zk/client.go", "if err == nil && cfg.CreateChroot {", "if err == nil {"}},
			pkg:   "zk", tests: []string{"TestMissingChrootIsNoNode"},
		},
		{
			number: 358, bug: "a stopped persistent watch stays at the server", where: "–",
			edits: []edit{{"zk/persistent.go", "s.over != nil || s.watches.persistent[node] != nil {", `s.over != nil || node != "" || s.watches.persistent[node] != nil {`}},
			pkg:   "zk", tests: []string{"TestStoppedPersistentWatchIsRemovedAtTheServerWhenNobodyNeedsIt"},
		},
		{
			number: 359, bug: "reads under way when a persistent watch stops lose their watch", where: "ZOOKEEPER-4466",
			edits: []edit{{"zk/persistent.go", "r.rearm = true", "r.rearm = false"}},
			pkg:   "zk", tests: []string{"TestReadsUnderWayWhenAPersistentWatchStopsGetTheirOwnWatch"},
		},
		{
			number: 360, bug: "a slow reader of a persistent watch is not told of the gap", where: "–",
			edits: []edit{{"zk/persistent.go", "\tw.missed = true\n\tw.c <- Event{Type: EventNone, Path: w.path, Err: ErrEventsMissed}", "\tw.missed = true"}},
			pkg:   "zk", tests: []string{"TestSlowReaderOfAPersistentWatchHoldsUpNobodyAndIsTold"},
		},
		{
			number: 361, bug: "a persistent watch whose call was cancelled stays", where: "–",
			edits: []edit{{"zk/queue.go", "if r.persistent != nil {\n\t\t\ts.stopPersistent", "if r.persistent != nil && s.over != nil {\n\t\t\ts.stopPersistent"}},
			pkg:   "zk", tests: []string{"TestCancelledAddWatchLeavesNothing"},
		},
		{
			number: 362, bug: "only the first identity is sent", where: "–",
			edits: []edit{{"zk/auth.go", "for _, a := range auths {\n\t\tvar err error", "for _, a := range auths[:min(1, len(auths))] {\n\t\tvar err error"}},
			pkg:   "zk", tests: []string{"TestAuthIsSentOnEveryConnectionBeforeAnythingElse"},
		},
		{
			number: 363, bug: "an event waits for the reader of its watch", where: "go-zookeeper #101, CURATOR-297",
			edits: []edit{{"zk/ops.go", "func (c calls) newWatch(path string, kind watchKind) *Watch {\n\tch := make(chan Event, 1)", "func (c calls) newWatch(path string, kind watchKind) *Watch {\n\tch := make(chan Event)"}},
			pkg:   "zk", tests: []string{"TestUnreadWatchesStopNobody"},
		},
		{
			number: 364, bug: "a time to live is left for the server to check", where: "–",
			edits: []edit{{"zk/ttl.go", "if ms < 1 || ms > zkproto.MaxTTL {", "if ms > zkproto.MaxTTL {"}},
			pkg:   "zk", tests: []string{"TestNonsenseIsRefusedBeforeItIsSent"},
		},
		{
			number: 365, bug: "a call that was cancelled keeps its request in the queue", where: "–",
			edits: []edit{{"zk/queue.go", "s.forgetArming(r)\n\t\t\t\tback", "back"}},
			pkg:   "zk", tests: []string{"TestCancelledCallsLeaveNothingBehind"},
		},
	}
}
