package mutants

// ofTheGaps are bugs in what issue 16 added to fence, elections and options.
func ofTheGaps() []mutant {
	return []mutant{
		{
			number: 570, bug: "a dead server gets its share of the timeout that was asked for, not of the granted one", where: "our own, until 3227eb9",
			edits: []edit{{"zk/session.go", "s.client.connect(ctx, req, s.Timeout())", "s.client.connect(ctx, req, s.client.cfg.SessionTimeout)"}},
			pkg:   "zk", tests: []string{"TestDeadServerLeavesTimeWithinTheGrantedTimeout"},
		},
		{
			number: 571, bug: "a lookup and the connection after it get one share of the time each", where: "our own, until 3227eb9",
			edits: []edit{{"zk/client.go", "context.WithDeadline(ctx, began.Add(c.patience(round, timeout))) // the", "context.WithDeadline(ctx, time.Now().Add(c.patience(round, timeout))) // the"}},
			pkg:   "zk", tests: []string{"TestLookupAndConnectShareOneTime"},
		},
		{
			number: 572, bug: "Dial fails if the server throttles while the chroot is created", where: "our own, until 3227eb9",
			edits: []edit{{"zk/create_all.go", "return SafeToRetry(err) ||", "return SafeToRetry(err) && !errors.Is(err, ErrThrottled) ||"}},
			pkg:   "zk", tests: []string{"TestChrootIsMadeOnAServerThatThrottles"},
		},
		{
			number: 573, bug: "the next in line does not look at what its probes find", where: "our own, until 3227eb9",
			edits: []edit{{"internal/queue/await.go", "\tcase <-p.lease.Gone():\n\t\terr = ErrGone\n", ""}},
			pkg:   "internal/queue", tests: []string{"TestWaiterThatMayNotReadItsNodeQueuesAgain"},
		},
		{
			number: 574, bug: "TryLock fails with an error without a name if somebody removes its node", where: "our own, until 3227eb9",
			edits: []edit{{"lock.go", "\t\tif !errors.Is(err, queue.ErrGone) {\n\t\t\treturn h, err\n\t\t}\n\t\tif turn", "\t\tif true {\n\t\t\treturn h, err\n\t\t}\n\t\tif turn"}},
			tests: []string{"TestTryLockOutlastsTheRemovalOfItsNode", "TestTryLockOfSeveralOutlastsTheLossOfOne", "TestTryLockGivesUpWithItsContext"},
		},
		{
			number: 575, bug: "a MultiLock's next TryLock finds the node of the one before, and takes it for another's", where: "–",
			edits: []edit{{"multilock.go", "\t\tif wait {\n\t\t\tdefer context", "\t\tif true {\n\t\t\tdefer context"}},
			tests: []string{"TestTryLockOfSeveralOutlastsTheLossOfOne"},
		},
		{
			number: 576, bug: "the search for a node reads one node after the other", where: "our own, until 3227eb9",
			edits: []edit{{"internal/queue/find.go", "slices.Chunk(candidates, readsInFlight)", "slices.Chunk(candidates, 1)"}},
			tests: []string{"TestSearchForANodeTakesFewRoundTrips"},
		},
		{
			number: 577, bug: "List knows nothing of kazoo's semaphore", where: "our own, until 3227eb9",
			edits: []edit{{"list.go", "if g.Semaphore.Lease != \"\" && !g.Semaphore.Numbered {", "if false {"}},
			tests: []string{"TestBreakTakesAllPermitsOfOneToken", "TestRevokeAndBreakReachHoldersAndWaiters"},
		},
		{
			number: 578, bug: "Break does not find the waiters of kazoo's semaphore", where: "our own, until 3227eb9",
			edits: []edit{{"revoke.go", "range names.Semaphores() {", "range names.Semaphores()[:1] {"}},
			tests: []string{"TestRevokeAndBreakReachHoldersAndWaiters"},
		},
		{
			number: 579, bug: "a beginning that is withdrawn takes the older one with it", where: "our own, until 3227eb9",
			edits: []edit{{"once/call.go", "if seen.begun != nil { // of an", "if false { // of an"}},
			pkg:   "once", tests: []string{"TestOnceThatWithdrawsLeavesTheOlderBeginning"},
		},
		{
			number: 514, bug: "on MySQL, the token is read from the transaction's snapshot", where: "–",
			edits: []edit{{"fence/sql.go", " WHERE resource = ? FOR UPDATE`", " WHERE resource = ?`"}},
			pkg:   beside, tests: []string{"TestFence"}, args: []string{"-run=^TestFence$/^MariaDB$"},
		},
		{
			number: 515, bug: "on MySQL, a token is stale if the upsert has changed no row", where: "–",
			edits: []edit{{"fence/sql.go", "if s.reread != \"\" {", "if false {"}},
			pkg:   beside, tests: []string{"TestFence"}, args: []string{"-run=^TestFence$/^MariaDB$"},
		},
		{
			number: 516, bug: "on MySQL, resources that differ in case or in a space at the end are one", where: "–",
			edits: []edit{{"fence/sql.go", "create: `CREATE TABLE IF NOT EXISTS holdfast_fence (resource VARBINARY(767)", "create: `CREATE TABLE IF NOT EXISTS holdfast_fence (resource VARCHAR(767)"}},
			pkg:   beside, tests: []string{"TestFence"}, args: []string{"-run=^TestFence$/^MariaDB$"},
		},
		{
			number: 517, bug: "on MySQL, a stale token replaces the larger one", where: "–",
			edits: []edit{{"fence/sql.go", "token = GREATEST(token, VALUES(token))", "token = VALUES(token)"}},
			pkg:   beside, tests: []string{"TestFence"}, args: []string{"-run=^TestFence$/^MariaDB$"},
		},
		{
			number: 518, bug: "the length of a resource's name is left to MySQL, which may cut it off", where: "–",
			edits: []edit{{"fence/sql.go", "len(resource) > longestMySQL", "len(resource) > 1<<20"}},
			pkg:   "fence", tests: []string{"TestCheckRefusesWhatCannotBeRight"},
		},
		{
			number: 519, bug: "Lead returns after a loss", where: "CURATOR-73, CURATOR-518",
			edits: []edit{{"election.go", "if !lost || ctx.Err() != nil {", "if !lost || true {"}},
			tests: []string{"TestLeadCampaignsAgainAfterALoss", "TestLeadWaitsForItsFunction"}, simulated: true,
		},
		{
			number: 520, bug: "Lead campaigns again if the term ends after its function", where: "–",
			edits: []edit{{"election.go", "if !lost || ctx.Err() != nil {", "if !lost && !errors.Is(err, ErrLost) || ctx.Err() != nil {"}},
			tests: []string{"TestLeadThatCannotResignSaysSo"},
		},
		{
			number: 521, bug: "Lead campaigns after a loss while its function goes on", where: "–",
			edits: []edit{{"election.go", "\t\t\terr := f(ctx)\n\t\t\tlost = ", "\t\t\tdone := make(chan error, 1)\n\t\t\tgo func() { done <- f(ctx) }()\n\t\t\tvar err error\n\t\t\tselect {\n\t\t\tcase err = <-done:\n\t\t\tcase <-h.Lost():\n\t\t\t}\n\t\t\tlost = "}},
			tests: []string{"TestLeadWaitsForItsFunction"},
		},
		{
			number: 522, bug: "Lead keeps its function's error to itself if the context ends after a loss", where: "–",
			edits: []edit{{"election.go", "if !lost || ctx.Err() != nil {", "if !lost {"}},
			tests: []string{"TestLeadEndsWithItsContext"},
		},
		{
			number: 523, bug: "Leaders ends with an error when nobody leads", where: "holdfast at 183276b, which went on after it",
			edits: []edit{{"election.go", "\treturn f.yield(l, nil)\n", "\tif l.Term == 0 {\n\t\treturn f.yield(l, f.fail(ErrNoLeader))\n\t}\n\treturn f.yield(l, nil)\n"}},
			tests: []string{"TestElectionHasOneLeaderAndTellsWho"},
		},
		{
			number: 524, bug: "Leader returns nobody as the leader, without an error", where: "–",
			edits: []edit{{"election.go", "if err == nil && l.Term == 0 {", "if false {"}},
			tests: []string{"TestElectionHasOneLeaderAndTellsWho", "TestProclaimOfALostTermChangesNothing"},
		},
		{
			number: 525, bug: "a Semaphore ignores Reentrant and WithLocalHandoff", where: "holdfast at 183276b",
			edits: []edit{{"options.go", "\"a Semaphore\": setNote", "\"a Semaphore\": setReentrant | setHandoff | setNote"}},
			tests: []string{"TestOptionsThatAKindCannotHonourAreErrors"},
		},
		{
			number: 526, bug: "a NodeLock ignores WithLayout", where: "holdfast at 183276b",
			edits: []edit{{"options.go", "\"a NodeLock\":  setNote", "\"a NodeLock\":  setLayout | setNote"}},
			tests: []string{"TestOptionsThatAKindCannotHonourAreErrors"},
		},
		{
			number: 527, bug: "a Reentrant candidate joins its own term, and its new value is dropped", where: "holdfast at 183276b",
			edits: []edit{{"options.go", "\"an Election\": setProcess | setACL", "\"an Election\": setReentrant | setProcess | setACL"}},
			tests: []string{"TestOptionsThatAKindCannotHonourAreErrors"},
		},
		{
			number: 528, bug: "an observer takes options that an Election refuses", where: "–",
			edits: []edit{{"election.go", "if err := q.valid(); err != nil {", "if err := queue.ValidatePath(q.Path); err != nil {"}},
			tests: []string{"TestOptionsThatAKindCannotHonourAreErrors"},
		},
		{
			number: 529, bug: "WithLocalHandoff(0), which is the default, is refused", where: "–",
			edits: []edit{{"options.go", "setNumber(o, setHandoff, n, n > 0)", "setNumber(o, setHandoff, n, n >= 0)"}},
			tests: []string{"TestOptionsThatAKindCannotHonourAreErrors"},
		},
		{
			number: 530, bug: "run --node names a layout, which a NodeLock refuses", where: "–",
			edits: []edit{{"internal/cli/hold/locker.go", "NewNodeLock(c, path, who...)", "NewNodeLock(c, path, opts...)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^kinds$"},
		},
		{
			number: 531, bug: "elect names an owner, which an Election refuses", where: "–",
			edits: []edit{{"internal/cli/hold/elect/elect.go", "append(hold.OfProcess(), plan.Metrics.Observed(), prefer)...", "holdfast.WithOwner(plan.Who), prefer"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^elect$"},
		},
		{
			number: 532, bug: "the locks of shards ignore options that they cannot honour", where: "–", pkg: "shards",
			edits: []edit{{"shards/shards.go", "o.refused = cmp.Or(locks.Err, o.refused)", "o.refused = cmp.Or(o.refused)"}},
			tests: []string{"TestRunRefusesWrongSettings"},
		},
		{
			number: 590, bug: "a writer yields before each write, also if the yield takes 10 ms", where: "ours until 23 November",
			edits: []edit{{"zk/conn.go", "\t\t\tc.noYield = began.Add(took + pause)\n", "\t\t\tc.noYield = began\n"}},
			pkg:   "zk", tests: []string{"TestSlowYieldsAreRare"},
		},
		{
			number: 591, bug: "a yield that brought many requests counts as slow", where: "made up",
			edits: []edit{{"zk/conn.go", "worth*time.Duration(1+max(0, n-queued))", "worth"}},
			pkg:   "zk", tests: []string{"TestWriterYieldsWhileTheQueueGrows"},
		},
		{
			number: 852, bug: "a request that cannot be written discards the answers that have arrived", where: "ours until 26 November",
			edits: []edit{{"zk/conn.go", "c.writeFailed(err)", "c.transportFailed(err)"}},
			pkg:   "zk", tests: []string{"TestAnswersThatArrivedBeforeAFailedWriteCount"},
		},
		{
			number: 853, bug: "a connection that takes no requests is kept for as long as the server is silent", where: "made up",
			edits: []edit{{"zk/conn.go", "time.After(lastReads)", "time.After(time.Hour)"}},
			pkg:   "zk", tests: []string{"TestAnswersThatArrivedBeforeAFailedWriteCount"},
		},
		{
			number: 854, bug: "a write that reports the end of the session waits for answers", where: "made up",
			edits: []edit{{"zk/conn.go", "\tif !errors.Is(err, ErrSessionExpired) {\n\t\tselect {\n\t\tcase <-c.broken:", "\t{\n\t\tselect {\n\t\tcase <-c.broken:"}},
			pkg:   "zk", tests: []string{"TestAnswersThatArrivedBeforeAFailedWriteCount"},
		},
		{
			number: 855, bug: "bench counts a tenure that the end of the measurement cuts off, if its release is quick", where: "ours until 26 November",
			edits: []edit{{"internal/cli/bench/bench.go", "\tif ctx.Err() != nil {\n\t\treturn // the end", "\tif b.took > 0 {\n\t\treturn // the end"}},
			pkg:   "internal/cli/bench", tests: []string{"TestATenureThatIsCutOffIsNoCycle"},
		},
		{
			number: 1050, bug: "CommitAndUnlock gives up the transaction if the server refuses the watermark", where: "–",
			edits: []edit{{"hold.go", "if err != nil && len(watermarks) > 0 && !zk.MayHaveHappened(err) {", "if err != nil && len(watermarks) < 0 {"}},
			tests: []string{"TestMarkIsLeftOnlyWhereTheDataAreNobodys"},
		},
		{
			number: 1051, bug: "the time since when a lock is held is lost with a request", where: "–",
			edits: []edit{{"internal/tenure/rewrite.go", "\t\t\tops = append(ops, zk.SetOp(p.Path(), data, present[i].Stat.Version))\n\t\t\tt.rewrites.intended[p] = data\n\t\t}\n\t\terr := zk.Retry(t.ctx", "\t\t\tops = append(ops, zk.SetOp(p.Path(), data, present[i].Stat.Version))\n\t\t}\n\t\terr := zk.Retry(t.ctx"}},
			tests: []string{"TestTheTimeSurvivesARequest"},
		},
		{
			number: 1052, bug: "a follower takes another node of the leader's name for the leader", where: "–",
			edits: []edit{{"election.go", "case err == nil && (first != f.last.Path || stat.Czxid == f.last.Term):", "case err == nil:"}, {"election.go", "\t\t\tcase err == nil:\n\t\t\t\twatch.Stop() // another of the same name\n", ""}},
			tests: []string{"TestFollowerKnowsTheLeaderByItsTermAndNotByItsName"},
		},
	}
}
