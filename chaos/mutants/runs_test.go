package mutants

// ofRuns are those of what run does once, keeps after its end, and tells.
func ofRuns() []mutant {
	return []mutant{
		{
			number: 610, bug: "a reservation is not seen by a waiter that was in the queue before it was made", where: "–",
			edits: []edit{{"reserve/locker.go", "\tif r == nil || err != nil || r.Token == p.Token {", "\tif r == nil || err != nil || r.Token <= p.Token && p.WaitedFor() != \"\" {"}},
			pkg:   "reserve", tests: []string{"TestReservationHoldsUpTheQueue"},
		},
		{
			number: 611, bug: "a holder reserves a lock that it has lost", where: "a tombstone that is written after the run",
			edits: []edit{{"reserve/reserve.go", "\t\t\tresults, err = commit(ctx, h, ops)\n", "\t\t\tresults, err = tenures[0].Place.Session.Multi(ctx, ops...)\n"}},
			pkg:   "reserve", tests: []string{"TestReserveAfterTheLoss"},
		},
		{
			number: 612, bug: "a waiter at the head gives up when its session ends", where: "–",
			edits: []edit{{"reserve/locker.go", "turn > 0 { // a wait", "turn > 0 && h == nil { // a wait"}},
			pkg:   "reserve", tests: []string{"TestReservationOutlivesItsWaiter"},
		},
		{
			number: 613, bug: "TryLock takes a lock that is reserved", where: "flock, consul lock: a job of a late clock runs twice",
			edits: []edit{{"reserve/locker.go", "\t\t\tcase !patience:\n\t\t\t\treturn r\n", "\t\t\tcase !patience:\n"}},
			pkg:   "reserve", tests: []string{"TestReservationOutlivesItsHolder", "TestReservationsDoNotOverlap"},
		},
		{
			number: 614, bug: "a period counts from the moment when the lock is acquired", where: "–",
			edits: []edit{{"once/turn.go", "\t\"errors\"\n", "\t\"errors\"\n\t\"time\"\n"}, {"once/turn.go", "Began: h.place.Ctime()", "Began: h.place.At(time.Now())"}},
			pkg:   "once", tests: []string{"TestTurnWithinCountsFromTheQueue"},
		},
		{
			number: 615, bug: "run records a job as done that has failed", where: "a marker file that is written before the job",
			edits: []edit{{"internal/cli/hold/run.go", "startErr == nil && out.Code == 0 && !out.Lost && !out.Overdue\n", "startErr == nil && !out.Lost\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^run_once$"},
		},
		{
			number: 616, bug: "a reservation lasts longer if the server's clock goes back", where: "–",
			edits: []edit{{"reserve/locker.go", "if now.server < found.Stat.Mtime {", "if now.server < found.Stat.Mtime-(100*365*24*time.Hour).Milliseconds() {"}},
			pkg:   "reserve", tests: []string{"TestReservationUnderAClockThatMoves"},
		},
		{
			number: 617, bug: "a reservation is not written if the connection is lost meanwhile", where: "–",
			edits: []edit{{"reserve/reserve.go", "\t\terr := zk.Repeat(ctx, func() (err error) {\n\t\t\tresults, err = commit(ctx, h, ops)\n\t\t\treturn err\n\t\t})\n", "\t\tvar err error\n\t\tresults, err = commit(ctx, h, ops)\n"}},
			pkg:   "reserve", tests: []string{"TestReserveUnderLostConnections"},
		},
		{
			number: 618, bug: "a turn does not look whether the key is done", where: "–",
			edits: []edit{{"once/turn.go", "last := c.counts(seen, h.place); last != nil {", "last := c.counts(seen, h.place); last != nil && j.every {"}},
			pkg:   "once", tests: []string{"TestTurnIsTakenOnce"},
		},
		{
			number: 619, bug: "a run is recorded without proof of the lock", where: "a marker that any client may write",
			edits: []edit{{"once/marks.go", "err := h.commit(h.place.Session.Context(), ops)", "_, err := j.client.Multi(ctx, ops...)"}},
			pkg:   "once", tests: []string{"TestTurnOfALostLockRecordsNothing"},
		},
		{
			number: 593, bug: "nobody looks whether a run was recorded when the connection was lost", where: "–",
			edits: []edit{{"once/marks.go", "err == nil || !doubt {", "err == nil || doubt || !doubt {"}},
			pkg:   "once", tests: []string{"TestTurnUnderLostConnections"},
		},
		{
			number: 710, bug: "a command that the user continues while it is suspended stays stopped for ever", where: "ours until 24 November",
			edits: []edit{{"internal/supervise/guard.go", "\t\t\tcase sig == continuing && g.frozen:\n\t\t\t\tg.awake = true\n", "\t\t\tcase sig == continuing && g.frozen:\n"}},
			pkg:   "internal/supervise", tests: []string{"TestSuspectJobIsSuspended"}, args: impatient,
		},
		{
			number: 711, bug: "processes that a killed command leaves stay suspended", where: "ours until 24 November",
			edits: []edit{{"internal/supervise/guard.go", "\t\tif g.frozen { // the command was killed meanwhile\n\t\t\tg.job.thaw()\n\t\t}\n", ""}},
			pkg:   "internal/supervise", tests: []string{"TestSuspectJobIsSuspended"}, args: impatient,
		},
		{
			number: 712, bug: "no signal is heard while the lock is released", where: "ours until 24 November; consul #4439",
			edits: []edit{{"internal/cli/job/job.go", "if nth--; nth == 0 {", "if nth--; nth < -99 {"}},
			pkg:   "internal/cli/hold", tests: []string{"TestReleaseIsCutOff"},
		},
		{
			number: 713, bug: "run does not know that a wait which was cut off may have reserved the lock", where: "ours until 24 November",
			edits: []edit{{"internal/cli/hold/min_hold.go", "\tr.made.Store(true)\n", ""}},
			pkg:   "internal/cli/hold", tests: []string{"TestWaitThatIsCutOffKnowsItsReservation"},
		},
		{
			number: 714, bug: "the text of another user's node is printed whole", where: "ours until 24 November",
			edits: []edit{{"internal/cli/show/show.go", "s = term.Escape(term.Cut(s, term.MaxCell))", "s = term.Escape(s)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestTextOfOthersIsCut"},
		},
		{
			number: 841, bug: "a bounded wait that ends just after the server is lost says that the lock is held", where: "ours until 26 November",
			edits: []edit{{"internal/cli/hold/acquire.go", "\t\tif c.Contact.Lost() > 0 && !c.Contact.Answered(over) {", "\t\tif c.Contact.Lost() < 0 && !c.Contact.Answered(over) {"}},
			pkg:   "internal/cli/hold", tests: []string{"TestBoundedWaitWhoseServerIsLostAtItsEnd"},
		},
		{
			number: 842, bug: "a bounded wait that ends while it reads a reservation names its own node as the holder", where: "ours until 26 November",
			edits: []edit{{"internal/cli/hold/view.go", " || v.owns(ctx, queue[0]) {", " {"}},
			pkg:   "internal/cli/hold", tests: []string{"TestBusyNamesTheReservationAndNotItsOwnNode"},
		},
		{
			number: 843, bug: "the reason why a host cannot start is printed ten seconds after \"no answer yet\"", where: "ours until 26 November",
			edits: []edit{{"internal/cli/conn/contact.go", "if !strings.HasSuffix(causes, noAnswerYet) {", "if true {"}},
			pkg:   "internal/cli/conn", tests: []string{"TestThatNoServerAnswersIsSaid"},
		},
		{
			number: 844, bug: "shard sends TERM to the command of a lost shard before it kills it", where: "ours until 26 November",
			edits: []edit{{"internal/cli/hold/shard/shard.go", "no TERM\n\t\t\t\tcontinue", "no TERM"}},
			pkg:   "internal/cli/hold/shard", tests: []string{"TestCommandOfALostShardIsNotAskedToStop"},
		},
		{
			number: 715, bug: "status -q says that a lock is free, and cannot read whether it is reserved", where: "–",
			edits: []edit{{"internal/locks/at.go", " || l.State(now) == Free && s.Doubt != nil", ""}},
			pkg:   "cmd/holdfast", tests: []string{"TestStatusDespiteUnreadableRecords"},
		},
		{
			number: 716, bug: "break --once-key removes a newer run than the one that it has shown", where: "ours until 24 November",
			edits: []edit{{"once/call.go", "(token == anyRun || m.Token == token) }", "(token >= anyRun || m.Token == token) }"}},
			pkg:   "once", tests: []string{"TestForgetRunRemovesNoOtherRun"},
		},
		{
			number: 717, bug: "the command starts in a session whose timeout is too short for --term-before", where: "ours until 24 November",
			edits: []edit{{"internal/cli/hold/acquire.go", "\t\t\terr = k.suits(session)\n", "\t\t\t_ = k.suits(session)\n"}},
			pkg:   "internal/cli/hold", tests: []string{"TestSessionOfTheHoldIsChecked"},
		},
		{
			number: 718, bug: "one process that cannot be started ends all shards of a worker", where: "ours until 24 November",
			edits: []edit{{"internal/cli/hold/shard/shard.go", "[]error{syscall.ENOENT, ", "[]error{syscall.EAGAIN, syscall.ENOENT, "}},
			pkg:   "internal/cli/hold/shard", tests: []string{"TestCommandsThatNeverRun"},
		},
	}
}
