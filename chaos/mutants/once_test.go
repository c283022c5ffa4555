package mutants

// ofTheOnce are bugs of Once. They have numbers of their own, from 400 on.
func ofTheOnce() []mutant {
	return []mutant{
		{
			number: 417, bug: "the marks are read at a server that is behind the event that brought the turn", where: "–",
			edits: []edit{{"once/marks.go", "before := p.WaitedFor()", `before := ""`}},
			pkg:   "once", tests: []string{"TestOnceLooksWhereTheRunBeforeIsOver"},
		},
		{
			number: 418, bug: "the result is written without a check of the lock", where: "cron libraries with a done flag",
			edits: []edit{{"once/marks.go", "err := h.commit(h.place.Session.Context(), ops)", "_, err := j.client.Multi(ctx, ops...)"}},
			pkg:   "once", tests: []string{"TestOnceRunnerThatLosesTheLockRecordsNothing"},
		},
		{
			number: 419, bug: "a result whose answer was lost counts as not recorded", where: "–",
			edits: []edit{{"once/marks.go", "err == nil || !doubt {", "err == nil || doubt || !doubt {"}},
			pkg:   "once", tests: []string{"TestOnceUnderLostConnectionsRunsOnce"},
		},
		{
			number: 420, bug: "a result whose answer was lost counts as recorded", where: "–",
			edits: []edit{{"once/marks.go", "err == nil || !doubt {\n\t\t\treturn err", "err == nil || !doubt || doubt {\n\t\t\tif doubt {\n\t\t\t\treturn nil\n\t\t\t}\n\t\t\treturn err"}},
			pkg:   "once", tests: []string{"TestOnceUnderLostConnectionsRunsOnce", "TestOnceMarkThatIsHeldUpIsNotGuessed", "TestOnceThatCannotFindOutSaysSo"},
		},
		{
			number: 421, bug: "a mark that cannot be read counts as not written", where: "–",
			edits: []edit{{"once/marks.go", `return fmt.Errorf("%w (%w): %w", holdfast.ErrUncertain, readErr, err)`, `return fmt.Errorf("%w (%w): %w", holdfast.ErrLost, readErr, err)`}},
			pkg:   "once", tests: []string{"TestOnceThatCannotFindOutSaysSo"},
		},
		{
			number: 422, bug: "a beginning is not recorded", where: "–",
			edits: []edit{{"once/call.go", "if !j.options.atMostOnce {\n\t\treturn lend.Joined(h.Err()", "if ctx != nil {\n\t\treturn errors.Join(h.Err()"}},
			pkg:   "once", tests: []string{"TestOnceAtMostOnceRecordsTheBeginning", "TestOnceOutlivesACrashAtAnyPoint"},
		},
		{
			number: 423, bug: "the beginning of a run that never began stays", where: "–",
			edits: []edit{
				{"once/call.go", "undo := []zk.Op{j.bump(zk.AnyVersion), zk.DeleteOp(j.begun(), zk.AnyVersion)}", "undo := []zk.Op{j.bump(zk.AnyVersion)}"},
			},
			pkg: "once", tests: []string{"TestOnceWithdrawsABeginning"},
		},
		{
			number: 424, bug: "each holder of the lock runs, although a result is recorded", where: "locks as a substitute for once",
			edits: []edit{{"once/call.go", "last := j.counts(seen, h.place); last != nil", "last := j.counts(seen, h.place); last != nil && j.period > 0"}},
			pkg:   "once", tests: []string{"TestOnceRunsOneCallAndTellsTheOthers", "TestOnceUnderSkewRunsEachFireOnce"},
		},
		{
			number: 425, bug: "a run that failed is recorded as done", where: "–",
			edits: []edit{{"once/call.go", "if r.Value = nil; !j.options.atMostOnce {\n\t\t\treturn r, nil\n\t\t}", "r.Value = nil"}},
			pkg:   "once", tests: []string{"TestOnceFailedRunIsNotRecorded", "TestWithinFailedRuns"},
		},
		{
			number: 426, bug: "marks are forgotten whatever their age", where: "–",
			edits: []edit{{"once/marks.go", "p.Ctime()-r.Stat.Mtime > j.options.forgetAfter.Milliseconds()", "p.Ctime()-r.Stat.Mtime > -1"}},
			pkg:   "once", tests: []string{"TestOnceForgetsOldMarks", "TestOnceUnderSkewRunsEachFireOnce"},
		},
		{
			number: 427, bug: "a run removes all old marks in one transaction", where: "–",
			edits: []edit{{"once/marks.go", "const pruneMost = 16", "const pruneMost = 1 << 20"}},
			pkg:   "once", tests: []string{"TestOnceForgetsOldMarks"},
		},
		{
			number: 428, bug: "an old mark is removed by its name, though it may be young by now", where: "–",
			edits: []edit{{"once/call.go", "ops[0] = j.bump(version)", "_ = version"}},
			pkg:   "once", tests: []string{"TestOnceForgetsNoYoungMark"},
		},
		{
			number: 429, bug: "a period is measured when the caller's turn comes", where: "–",
			edits: []edit{{"once/call.go", "max(p.Ctime()-last.Began, last.Began-p.Ctime())", "max(p.At(time.Now())-last.Began, last.Began-p.Ctime())"}},
			pkg:   "once", tests: []string{"TestWithinRunThatIsLongerThanThePeriod"},
		},
		{
			number: 430, bug: "a period is measured from the turn of its runner", where: "–",
			edits: []edit{{"once/call.go", "Began: h.place.Ctime()}", "Began: h.place.At(time.Now())}"}},
			pkg:   "once", tests: []string{"TestWithinRunThatIsLongerThanThePeriod"},
		},
		{
			number: 431, bug: "a clock that goes back stops all runs until it has caught up", where: "–",
			edits: []edit{{"once/call.go", "max(p.Ctime()-last.Began, last.Began-p.Ctime())", "p.Ctime()-last.Began"}},
			pkg:   "once", tests: []string{"TestWithinClockThatGoesBack"},
		},
		{
			number: 432, bug: "a run exactly a period before is within it", where: "–",
			edits: []edit{{"once/call.go", "time.Millisecond >= j.period", "time.Millisecond > j.period"}},
			pkg:   "once", tests: []string{"TestWithinCountsFromTheBeginningOfARun", "TestWithinUnderSkewRunsOncePerPeriod"},
		},
		{
			number: 433, bug: "a caller whose session ends in its turn gives up", where: "–",
			edits: []edit{{"once/call.go", "if started || err == nil {", "if started || h != nil {"}},
			pkg:   "once", tests: []string{"TestOnceOutlivesItsSessionAtAnyPoint"},
		},
		{
			number: 434, bug: "a % in a key stays as it is, so that keys share a name", where: "–",
			edits: []edit{{"once/marks.go", `"-_:@=+,~"`, `"-_:@=+,~%"`}},
			pkg:   "once", tests: []string{"TestOnceKeys"},
		},
		{
			number: 435, bug: "a Once does not look for locks of its name", where: "–",
			edits: []edit{{"once/marks.go", "return record{done, begun}, all.CheckKind(ctx, res[2].Children)", "_ = all\n\t\treturn record{done, begun}, nil"}},
			tests: []string{"TestOnceAndLocksUnderOneNameAreRefused", "TestOnceAndLocksThatComeTogetherSeeEachOther"},
		},
		{
			number: 436, bug: "a lock does not look for a Once of its name", where: "–",
			edits: []edit{{"internal/queue/kind.go", `{Once, onceIn}, {Tree`, `{Tree`}},
			tests: []string{"TestOnceAndLocksUnderOneNameAreRefused", "TestOnceAndLocksThatComeTogetherSeeEachOther"},
		},
		{
			number: 437, bug: "a Once ignores an option that it cannot honour", where: "–",
			edits: []edit{{"options.go", "\"a Once\":      setNote", "\"a Once\":      setReentrant | setNote"}},
			tests: []string{"TestOptionsThatAKindCannotHonourAreErrors"},
		},
		{
			number: 438, bug: "a result is not recorded when the caller has given up", where: "–",
			edits: []edit{{"once/marks.go", "h.commit(h.place.Session.Context(), ops)", "h.commit(ctx, ops)"}},
			pkg:   "once", tests: []string{"TestOnceCancelledCallerLeavesNothing"},
		},
		{
			number: 439, bug: "a value of the largest size is refused", where: "–",
			edits: []edit{{"once/call.go", "len(m.value) > MaxValue {", "len(m.value) >= MaxValue {"}},
			pkg:   "once", tests: []string{"TestOnceFailedRunIsNotRecorded"},
		},
		{
			number: 440, bug: "all keys queue for one lock", where: "–",
			edits: []edit{{"once/call.go", "holdfast.NewMutex(o.client, c.dir,", "holdfast.NewMutex(o.client, o.path+\"/\"+queue.OnceShard+\"0/lock\","}},
			pkg:   "once", tests: []string{"TestOnceKeysDoNotWaitForEachOther"},
		},
		{
			number: 441, bug: "every call queues, also if the result is recorded", where: "–",
			edits: []edit{{"once/call.go", "\tif j.period == 0 {\n\t\tm, err := j.read(", "\tif j.period < 0 {\n\t\tm, err := j.read("}},
			pkg:   "once", tests: []string{"TestOnceAnswersWithOneRead"},
		},
		{
			number: 442, bug: "Forget leaves the beginning of a run", where: "–",
			edits: []edit{{"once/call.go", "\t\tif meant(seen.begun) {", "\t\tif meant(seen.begun) && seen.done != nil {"}},
			pkg:   "once", tests: []string{"TestOnceAtMostOnceRecordsTheBeginning"},
		},
		{
			number: 443, bug: "any data in the place of a mark are a result", where: "–",
			edits: []edit{{"once/marks.go", "if !ok || json.Unmarshal(line, m) != nil || m.Token <= 0 {", "if json.Unmarshal(line, m); !ok {"}},
			pkg:   "once", tests: []string{"TestOnceDoesNotBelieveOtherData", "FuzzMark"},
		},
		{
			number: 444, bug: "a function that calls its own key waits for ever", where: "–",
			edits: []edit{{"once/call.go", "return j.f(held)", "_ = held\n\treturn j.f(context.WithoutCancel(ctx))"}},
			pkg:   "once", tests: []string{"TestOnceInsideItselfIsADeadlock"},
		},
		{
			number: 445, bug: "the next session only reads the mark, while the transaction of the last one is on its way", where: "–",
			edits: []edit{{"once/marks.go", "\t\t\terr = p.RemoveWith(ctx, next, undo...)\n", "\t\t\t_, err = next.Multi(ctx, zk.CheckOp(j.shard, zk.AnyVersion))\n"}},
			pkg:   "once", tests: []string{"TestOnceMarkThatArrivesLateIsNotWritten"},
		},
		{
			number: 446, bug: "a result is only looked for before the caller queues; found by the simulation", where: "check and then lock",
			edits: []edit{{"once/call.go", "last := j.counts(seen, h.place); last != nil", "last := j.counts(seen, h.place); last != nil && j.period > 0"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfOnce"}, args: []string{"-seeds=40"},
		},
		{
			number: 447, bug: "ls takes the marks of a Once for free locks", where: "ours, until a reader found it",
			edits: []edit{
				{"internal/locks/read.go", "(name == \"done\" || name == \"begun\") && onceShard(", "name == \"\" && onceShard("},
				{"internal/locks/read.go", " || res.Stat.Cversion == 0 {", " {"},
				{"internal/locks/read.go", "return queue.Unclaimed(res.Data) || limitIn(res.Data) > 0", "return true"},
			},
			pkg: "internal/cli/see", tests: []string{"TestListShowsNoMarksOfAOnce"},
		},
	}
}
