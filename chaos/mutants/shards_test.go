package mutants

// ofTheShards are those of Shards: shards with two workers, with none, or that move too often.
func ofTheShards() []mutant {
	const pure = "internal/balance"
	return []mutant{
		{
			number: 478, bug: "a shard is unlocked when it is to move, and its function still works on it", where: "Kafka's eager rebalance", pkg: "shards",
			edits: []edit{{"shards/worker.go", "func() { k.guard(returned) }", "func() { h.Unlock(); k.guard(returned) }"}},
			tests: []string{"TestShardMovesWhenItsFunctionHasReturned", "TestShardOfAFunctionThatIsStuckStaysLocked"},
		},
		{
			number: 479, bug: "a shard is unlocked after the limit, though its function has not returned", where: "Kafka's max.poll.interval", pkg: "shards",
			edits: []edit{{"shards/worker.go", "func() { k.guard(returned) }", "func() { k.guard(returned); h.Unlock() }"}},
			tests: []string{"TestShardOfAFunctionThatIsStuckStaysLocked"},
		},
		{
			number: 480, bug: "nobody hears of a function that does not return", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "k.worker.fail(fmt.Errorf(\"shard %d: %w after", "_ = (fmt.Errorf(\"shard %d: %w after"}},
			tests: []string{"TestShardOfAFunctionThatIsStuckStaysLocked"},
		},
		{
			number: 481, bug: "a shard that comes back while its function ends is never begun again", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "\t\tcase <-r.again:\n\t\t\tr.adopt(ctx)\n", "\t\tcase <-r.again:\n"}},
			tests: []string{"TestShardThatComesBackWhileItsFunctionEnds"},
		},
		{
			number: 482, bug: "a shard that was lost is begun again while its function still works", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "func() { k.guard(returned) }", "func() {\n\t\tif r := k.worker; errors.Is(context.Cause(held), holdfast.ErrLost) {\n\t\t\tr.mu.Lock()\n\t\t\tdelete(r.keepers, k.number)\n\t\t\tr.mu.Unlock()\n\t\t\tr.lookAgain()\n\t\t}\n\t\tk.guard(returned)\n\t}"}},
			tests: []string{"TestLostShardIsBegunAgainWhenItsFunctionHasReturned"},
		},
		{
			number: 483, bug: "a function that has returned nil gives its shard up", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "\t<-held.Done()\n", "\tif held.Err() == nil {\n\t\th.Unlock()\n\t\t<-ctx.Done()\n\t}\n"}},
			tests: []string{"TestFunctionThatReturnsKeepsItsShard"},
		},
		{
			number: 484, bug: "a function's error ends that shard and nothing else", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "\t\treturn fmt.Errorf(\"shard %d: %w\", k.number, err)\n", "\t\treturn nil\n"}},
			tests: []string{"TestErrorOfAFunctionEndsRun"},
		},
		{
			number: 485, bug: "Run returns while its functions still work", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "\tr.dismiss()\n", ""}},
			tests: []string{"TestRunWaitsForItsFunctions"},
		},
		{
			number: 486, bug: "functions are not told that their shard is to move", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "k.stop(ErrMoving)", "k.stop(nil)"}},
			tests: []string{"TestShardMovesWhenItsFunctionHasReturned", "TestShardsMoveOnlyToANewcomerAndFromALeaver"},
		},
		{
			number: 487, bug: "programs that disagree about the number of shards work side by side", where: "–", pkg: "shards",
			edits: []edit{{"shards/plan.go", "len(p.Shards) != s.n:", "false:"}},
			tests: []string{"TestProgramsThatDisagreeAboutTheNumberOfShardsAreRefused"},
		},
		{
			number: 488, bug: "a newcomer gets shards at once", where: "Kafka before group.initial.rebalance.delay.ms", pkg: "shards",
			edits: []edit{{"internal/balance/damper.go", "if !pending(came[w.ID]) {", "if pending(came[w.ID]) || true {"}},
			tests: []string{"TestWorkerThatFlapsMovesNothing"},
		},
		{
			number: 489, bug: "the shards of a worker that is absent for a moment go to others at once", where: "Kafka before static membership", pkg: "shards",
			edits: []edit{{"internal/balance/damper.go", "if pending(left[w.ID]) {", "if pending(left[w.ID]) && false {"}},
			tests: []string{"TestLostShardsComeBackWithALargerToken"},
		},
		{
			number: 490, bug: "a leave never counts", where: "–", pkg: "shards",
			edits: []edit{{"internal/balance/damper.go", "if pending(left[w.ID]) {", "if pending(left[w.ID]) || true {"}},
			tests: []string{"TestShardsOfACrashedWorkerAreTaken", "TestShardsMoveOnlyToANewcomerAndFromALeaver"},
		},
		{
			number: 491, bug: "each look begins the settling time anew", where: "–", pkg: pure,
			edits: []edit{{"internal/balance/damper.go", "if t, ok := before[id]; ok {", "if t, ok := before[id]; ok && false {"}},
			tests: []string{"TestDamperWaitsForWorkersToSettle"},
		},
		{
			number: 492, bug: "an absent worker gets more shards", where: "–", pkg: pure,
			edits: []edit{{"internal/balance/damper.go", "w.Pinned = true", "w.Pinned = false"}},
			tests: []string{"TestAbsentWorkerGetsNothing"},
		},
		{
			number: 493, bug: "the plan forgets the owners, and everything moves", where: "Kafka's range assignor", pkg: "shards",
			edits: []edit{{"internal/balance/balance.go", "now[owner] >= 0 && room[now[owner]] > 0 {", "now[owner] >= 0 && room[now[owner]] < 0 {"}},
			tests: []string{"TestShardsMoveOnlyToANewcomerAndFromALeaver"},
		},
		{
			number: 494, bug: "seats beyond the rounded share go round regardless of the owners", where: "–", pkg: pure,
			edits: []edit{{"internal/balance/balance.go", "owned[i] > quotas[i], r}", "false, r}"}},
			tests: []string{"TestPlansAreFairAndMoveTheFewest"},
		},
		{
			number: 495, bug: "one worker gets all the seats beyond the rounded shares", where: "–", pkg: pure,
			edits: []edit{{"internal/balance/balance.go", "quotas[s.worker]++", "quotas[seats[0].worker]++; _ = s"}},
			tests: []string{"TestPlansAreFairAndMoveTheFewest", "TestJoinsAndLeavesMoveFewShards", "TestLargePlans"},
		},
		{
			number: 496, bug: "weights do not count", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "balance.Worker{Weight: s.set.weight,", "balance.Worker{Weight: 1,"}},
			tests: []string{"TestShardsFollowWeights"},
		},
		{
			number: 497, bug: "the leader does not see joins and leaves", where: "–", pkg: "shards",
			edits: []edit{{"shards/leader.go", "\t\treturn true, ev.Err\n", "\t\treturn false, ev.Err\n"}},
			tests: []string{"TestShardsMoveOnlyToANewcomerAndFromALeaver"},
		},
		{
			number: 498, bug: "a worker that leads no more writes the plan all the same", where: "–", pkg: "shards",
			edits: []edit{{"shards/leader.go", "l.hold.Commit(term, zk.SetOp(l.node.Path, data, stored.version))", "lend.Places(l.hold)[0].Session.Multi(term, zk.CheckOp(\"/\", zk.AnyVersion), zk.SetOp(l.node.Path, data, stored.version))"}},
			tests: []string{"TestFormerLeaderWritesNoPlan"},
		},
		{
			number: 499, bug: "a leader that has lost its term ends its Run", where: "–", pkg: "shards",
			edits: []edit{{"shards/leader.go", "ctx.Err() != nil || !lost {", "ctx.Err() != nil || !lost || true {"}},
			tests: []string{"TestFormerLeaderWritesNoPlan", "TestPlanThatWasRemovedIsWrittenAgain"},
		},
		{
			number: 500, bug: "a plan without workers takes all shards away", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "!keep && len(r.latest.Workers) > 0 {", "!keep {"}},
			tests: []string{"TestPlanThatWasRemovedIsWrittenAgain"},
		},
		{
			number: 501, bug: "the leader does not remember the plan that somebody has removed", where: "–", pkg: "shards",
			edits: []edit{{"shards/leader.go", "len(stored.Workers) > 0 || l.base.Shards == nil", "true"}},
			tests: []string{"TestPlanThatWasRemovedIsWrittenAgain"},
		},
		{
			number: 502, bug: "every worker looks at every shard when the plan changes", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "\tours := r.latest.Of(r.id)\n", "\tours := r.latest.Of(r.id)\n\tfor i := range r.latest.Shards {\n\t\tr.node.Client.Exists(ctx, r.Path(i))\n\t}\n"}},
			tests: []string{"TestRequestsOfAJoinAndALeave"},
		},
		{
			number: 503, bug: "all shards are one lock", where: "–", pkg: "shards",
			edits: []edit{{"shards/locks.go", `s.node.Path, queue.ShardQueues, shard)`, `s.node.Path, queue.ShardQueues, shard/2)`}},
			tests: []string{"TestShardsAreSpreadEvenly"},
		},
		{
			number: 504, bug: "functions are called without the lock", where: "–", pkg: "shards",
			edits: []edit{{"shards/locks.go", `"%s/%s/%04d", s.node.Path, queue.ShardQueues, shard)`, `"%s/%s/%04d-%p", s.node.Path, queue.ShardQueues, shard, s.node.Client)`}},
			tests: []string{"TestShardMovesWhenItsFunctionHasReturned", "TestThousandShardsUnderJoinsAndLeaves"},
		},
		{
			number: 505, bug: "an absent worker is told to be present", where: "–", pkg: "shards",
			edits: []edit{{"shards/assignment.go", "Session: sessions[w.ID], Shards", "Session: max(sessions[w.ID], 1), Shards"}},
			tests: []string{"TestAssignmentTellsWhoIsAbsent"},
		},
		{
			number: 506, bug: "the end of the session while Run looks at the plan ends Run", where: "ours, until the simulation found it", pkg: "shards",
			edits: []edit{{"shards/worker.go", "if turn, err = turn.Outlived(member, r.refresh(member)); err != nil {", "if err = r.refresh(member); err != nil {"}, {"shards/worker.go", "for turn := queue.Pace(1); turn > 0; {", "for turn := queue.Pace(1); turn > 0; turn = 0 {"}},
			tests: []string{"TestRunSurvivesTheEndOfItsSessionAtAnyRead"},
		},
		{
			number: 507, bug: "a shard is unlocked when it is to move, and the simulation sees it", where: "–", pkg: "chaos",
			edits: []edit{{"shards/worker.go", "func() { k.guard(returned) }", "func() { h.Unlock(); k.guard(returned) }"}},
			tests: []string{"TestSimulationOfShards"},
		},
		{
			number: 508, bug: "a leave never counts, and the simulation sees shards without a worker", where: "–", pkg: "chaos",
			edits: []edit{{"internal/balance/damper.go", "if pending(left[w.ID]) {", "if pending(left[w.ID]) || true {"}},
			tests: []string{"TestSimulationOfShards"},
		},
		{
			number: 509, bug: "the first worker keeps one shard too many, and the simulation sees that it is unfair", where: "–", pkg: "chaos",
			edits: []edit{{"internal/balance/balance.go", "\troom := slices.Clone(quotas)\n", "\troom := slices.Clone(quotas)\n\tif len(room) > 1 && room[1] > 0 {\n\t\troom[0]++\n\t\troom[1]--\n\t}\n"}},
			tests: []string{"TestSimulationOfShards"},
		},
		{
			number: 510, bug: "a worker that hands over stops at once", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "if r.set.handover == 0 {", "if r.set.handover >= 0 {"}},
			tests: []string{"TestHandoverLeavesNoShardWithoutAWorker"},
		},
		{
			number: 511, bug: "a worker that hands over goes on until its limit, though others have everything", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "if r.leaving.Err() != nil && len(ours) == 0 &&", "if false && len(ours) == 0 &&"}},
			tests: []string{"TestHandoverLeavesNoShardWithoutAWorker"},
		},
		{
			number: 512, bug: "a worker that hands over stays a member", where: "–", pkg: "shards",
			edits: []edit{{"shards/worker.go", "\t\tleave()\n\t\tif r.set.handover", "\t\tif r.set.handover"}},
			tests: []string{"TestHandoverLeavesNoShardWithoutAWorker"},
		},
		{
			number: 513, bug: "a refused restoration of watches moves their zxid on, and the events in between are lost", where: "ours, until the simulation of shards found it", pkg: "zk",
			edits: []edit{{"zk/conn.go", "req.op != zkproto.OpRemoveWatches && h.Err == zkproto.CodeOK {", "req.op != zkproto.OpRemoveWatches {"}},
			tests: []string{"TestEventsAreNotLostWhenWatchesAreRestoredLate"},
		},
	}
}
