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
			edits: []edit{{"zk/ops.go", "func (c *Calls) newWatch(path string, kind watchKind) *Watch {\n\tch := make(chan Event, 1)", "func (c *Calls) newWatch(path string, kind watchKind) *Watch {\n\tch := make(chan Event)"}},
			pkg:   "zk", tests: []string{"TestUnreadWatchesStopNobody"},
		},
		{
			number: 364, bug: "a time to live is left for the server to check", where: "–",
			edits: []edit{{"zk/ttl.go", "if ms < 1 || ms > zkproto.MaxTTL {", "if ms > zkproto.MaxTTL {"}},
			pkg:   "zk", tests: []string{"TestNonsenseIsRefusedBeforeItIsSent"},
		},
		{
			number: 365, bug: "the paths of created nodes have the chroot", where: "–",
			edits: []edit{{"zk/ops.go", "strings.TrimPrefix(r.created.Path, c.chroot), r.created.Stat", "strings.TrimPrefix(r.created.Path, \"\"), r.created.Stat"}},
			pkg:   "zk", tests: []string{"TestEveryOperationIsTheSameUnderAChroot"},
		},
		{
			number: 366, bug: "a lock's path is left for the server to check", where: "–",
			edits: []edit{{"zkproto/path.go", "\tcase path == \"\":\n", "\tcase path != \"\":\n\t\treturn nil\n\tcase path == \"\":\n"}},
			tests: []string{"TestInvalidLockPathsAreRefused"},
		},
		{
			number: 367, bug: "a client that may not read its chroot cannot use it", where: "ZOOKEEPER-2590",
			edits: []edit{{"zk/create_all.go", "\t\tcase errors.Is(err, ErrNoAuth):\n\t\t\treturn nil\n", ""}},
			pkg:   "zk", tests: []string{"TestChrootIsMadeWithTheRightsOnItsParentAlone"},
		},
		{
			number: 368, bug: "a chroot that another client has just made is an error", where: "samuel/go-zookeeper #14",
			edits: []edit{{"zk/create_all.go", "errors.Is(err, ErrNodeExists) {", "err == nil {"}},
			pkg:   "zk", tests: []string{"TestChrootIsMadeByAnotherAheadOfEachCreate"},
		},
		{
			number: 369, bug: "an observer sees the value of the leader before", where: "–",
			edits: []edit{{"election.go", "Leader{Value: data, Term", "Leader{Value: f.last.Value, Term"}},
			tests: []string{"TestElectionHasOneLeaderAndTellsWho"},
		},
		{
			number: 370, bug: "a connection lost during auth is taken for a refusal", where: "kazoo #594",
			edits: []edit{{"zk/auth.go", "fmt.Errorf(\"authenticate as %v: %w\", a, err)", "fmt.Errorf(\"authenticate as %v: %w: %w\", a, ErrAuthFailed, err)"}},
			pkg:   "zk", tests: []string{"TestConnectionLostDuringAuthIsFollowedByAnother"},
		},
		{
			number: 371, bug: "a call that was never sent may have happened", where: "–",
			edits: []edit{{"zk/queue.go", "for _, r := range back {\n\t\tr.complete(r.fail(cause, false))", "for _, r := range back {\n\t\tr.complete(r.fail(cause, true))"}},
			pkg:   "zk", tests: []string{"TestCallsWithoutAConnectionEndWithTheirContext"},
		},
		{
			number: 372, bug: "ended children are left until a strike is over, and make each of its lists longer", where: "ours, until 9a97e78",
			edits: []edit{{"internal/supervise/descendants_linux.go", "if f.over {", "if false {"}},
			pkg:   "internal/supervise", tests: []string{"TestEndedChildrenDoNotMakeTheListsLonger"}, args: atOnce,
		},
		{
			number: 373, bug: "the first refusal of a login is final", where: "ZOOKEEPER-4839",
			edits: []edit{{"zk/auth.go", "const refusalsOfOne = 2", "const refusalsOfOne = 1"}},
			pkg:   "zk", tests: []string{"TestOneRefusalIsNotTheLastWord"},
		},
		{
			number: 374, bug: "the time to connect does not bound a TLS handshake", where: "–",
			edits: []edit{{"zk/tls.go", "c.HandshakeContext(ctx)", "c.HandshakeContext(context.WithoutCancel(ctx))"}},
			pkg:   "zk", tests: []string{"TestHandshakeOverTLSIsBoundedByTheConnectTimeout"},
		},
		{
			number: 375, bug: "a call with an ended context returns nothing, and no error", where: "–",
			edits: []edit{{"zk/ops.go", "return r.fail(ended(ctx), false)", "return nil"}},
			pkg:   "zk", tests: []string{"TestCallsWithAnEndedContextFail"},
		},
		{
			number: 376, bug: "an answer to the handshake that ends in the middle is taken as it is", where: "–",
			edits: []edit{{"zk/conn.go", "\tif err := r.Complete(); err != nil {\n\t\treturn nil, sent, err\n\t}\n\tif !stop() {", "\tif !stop() {"}},
			pkg:   "zk", tests: []string{"TestNonsenseInTheHandshakeIsToldByDial"},
		},
		{
			number: 377, bug: "a cancelled read keeps its watch", where: "–",
			edits: []edit{{"zk/queue.go", "\t\tif r.watch != nil {\n\t\t\ts.stopWatch(r.watch)\n\t\t}\n", ""}},
			pkg:   "zk", tests: []string{"TestWatchesOfCallsInFlight"},
		},
		{
			number: 378, bug: "a call whose context has ended goes on waiting for its answer", where: "–",
			edits: []edit{{"zk/request.go", "\t\t\ts.withdraw(reqs, ended(ctx))\n\t\t\tfor _, r := range reqs {\n", "\t\t\tif ctx.Err() != nil {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tfor _, r := range reqs {\n"}},
			pkg:   "zk", tests: []string{"TestLateAnswerReachesNobodyElse"},
		},
		{
			number: 385, bug: "a client that is closed leaves its session, and with it its locks, to the server", where: "–",
			edits: []edit{{"zk/session.go", "s.queue, s.reattaching = append(s.queue, bye), false", "s.reattaching = false"}},
			tests: []string{"TestCloseEndsHoldsAndWaits"},
		},
		{
			number: 386, bug: "a Close is told as the end of the session", where: "–",
			edits: []edit{{"zk/session.go", "\ts.end(ErrClosed)\n\tbye :=", "\ts.end(ErrSessionExpired)\n\tbye :="}},
			pkg:   "zk", tests: []string{"TestCloseFailsWhatWaits"},
		},
		{
			number: 387, bug: "Close waits for a silent server without a bound", where: "–",
			edits: []edit{{"zk/session.go", "timer := time.NewTimer(s.patience())", "timer := time.NewTimer(time.Hour)"}},
			pkg:   "zk", tests: []string{"TestCloseReturnsWhateverTheClientIsDoing"},
		},
		{
			number: 388, bug: "a directory that is reaped while a lock joins is not made again", where: "CURATOR-644",
			edits: []edit{{"internal/queue/queue.go", "type Queue struct {\n", "type Queue struct {\n\tmade bool\n"}, {"internal/queue/join.go", "\t\t\tif err := p.Ensure(ctx, p.Dir); err != nil {\n\t\t\t\treturn names.Ahead{}, err", "\t\t\tif p.Queue.made {\n\t\t\t\treturn names.Ahead{}, err\n\t\t\t}\n\t\t\tp.Queue.made = true\n\t\t\tif err := p.Ensure(ctx, p.Dir); err != nil {\n\t\t\t\treturn names.Ahead{}, err"}},
			tests: []string{"TestDirectoryThatIsReapedWhileWeLockIsMadeAgain"},
		},
		{
			number: 389, bug: "the end of a context during a Lease is told as a lost connection", where: "–",
			edits: []edit{{"zk/lease.go", "\t\tdefault:\n\t\t\treturn nil, err\n", "\t\tdefault:\n\t\t\treturn nil, fail(ErrConnectionLoss)\n"}},
			pkg:   "zk", tests: []string{"TestLeaseWaitsForTheAnswerAndHonoursItsContext"},
		},
		{
			number: 390, bug: "a reader waits for nobody ahead (353), under faults", where: "–",
			edits: []edit{{"internal/queue/names/contender.go", "!(c.Shared && other.Shared)", "!c.Shared"}},
			tests: []string{"TestReadersAndWritersUnderFaults"},
		},
		{
			number: 391, bug: "the refusal of a login after a reconnect is told as the end of the client", where: "–",
			edits: []edit{{"zk/client.go", "req.SessionID == 0 {\n\t\t\t\treturn nil, nil, sent, c.refuse(t.server, err)", "req.SessionID == 0 {\n\t\t\t\treturn nil, nil, sent, err"}},
			pkg:   "zk", tests: []string{"TestRefusedAuthAfterAReconnectEndsTheSessionAndFailsWhatWaits"},
		},
		{
			number: 392, bug: "a read replaces a persistent watch on its node by a one-shot watch", where: "ZOOKEEPER-4466",
			edits: []edit{{"zk/persistent.go", "r.registers(!covered || mode == WatchPersistentRecursive && r.watch.kind == watchChild)", "r.registers(mode >= 0 || !covered)"}},
			pkg:   "zk", tests: []string{"TestWatchesOfAllKindsLiveSideBySide"},
		},
		{
			number: 393, bug: "a stalled link delivers", where: "–",
			edits: []edit{{"zktest/pipe.go", "len(p.data) > 0 && !stalled", "len(p.data) > 0 && (!stalled || true)"}},
			pkg:   "zktest", tests: []string{"TestStallIsSilenceInBothDirections"},
		},
		{
			number: 394, bug: "a killed watchdog whose threads are still ending counts as alive", where: "holdfast at eece7cc",
			edits: []edit{{"internal/supervise/cgroup_linux.go", "return p.ended() || p.headless", "return p.ended()"}},
			pkg:   "internal/supervise", tests: []string{"TestWatchdogThatIsEndingCountsAsDead"},
		},
	}
}
