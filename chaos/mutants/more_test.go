package mutants

// ofTheLocks are others that concern the recipes.
func ofTheLocks() []mutant {
	return []mutant{
		{
			number: 25, bug: "the clean-up has the context that was cancelled", where: "vitess #15756, ncps #913, Shopify",
			edits: []edit{{"internal/queue/remove.go", `if p.path == "" && !p.doubt {`, `if p.path == "" && !p.doubt || ctx.Err() != nil {`}},
			tests: []string{"TestCancelledWaitLeavesNoNode"},
		},
		{
			number: 26, simulated: true, bug: "who is woken holds the lock, without another look", where: "etcd #11456",
			edits: []edit{{"internal/queue/await.go", "p.ahead, err = p.nearGone(ctx, a, a.Last() && !ev.CatchUp)", "p.ahead = names.Ahead{}"}},
			pkg:   "internal/queue", tests: []string{"TestReaderOutlastsTheWriterThatGivesUp"},
		},
		{
			number: 27, bug: "a Lock whose context has ended returns a lock", where: "etcd #10111",
			edits: []edit{
				{"internal/tenure/tenure.go", "case ctx.Err() != nil: // a caller", "case false: // who"},
				{"zk/lease.go", "for ctx.Err() == nil {", "for {"},
				{"zk/ops.go", "if ctx.Err() != nil {", "if false {"},
			},
			tests: []string{"TestWhoHasGivenUpGetsNoLock"},
		},
		{
			number: 28, bug: "the queue is sorted by the whole name", where: "ZOOKEEPER-2931, accumulo PR #1926",
			edits: []edit{{"internal/queue/names/contender.go", "return Before(other.Seq, c.Seq) &&", "return other.Name < c.Name &&"}},
			pkg:   "internal/queue/names", tests: []string{"TestMutexWaitsForTheContenderRightAhead", "FuzzQueueIsALine"},
		},
		{
			number: 29, bug: "everybody watches the first in the queue", where: "Curator's readers",
			edits: []edit{{"internal/queue/names/ahead.go", "|| Before(near.Seq, c.Seq):", "|| Before(c.Seq, near.Seq):"}},
			tests: []string{"TestReleaseWakesOnlyTheNext", "TestReadersAreWokenByTheNearestWriterAlone"},
		},
		{
			number: 30, bug: "a NodeLock fails when the node is there, though it is only its own dying session's", where: "KAFKA-1387",
			edits: []edit{{"nodelock.go", "l.await(ctx, session, wait)", "l.await(ctx, session, false)"}},
			tests: []string{"TestOwnNodeOfADyingSessionIsWaitedFor"},
		},
		{
			number: 31, bug: "a node of our session is taken for that of this attempt", where: "–",
			edits: []edit{{"internal/queue/find.go", "(p.Unique || ReadNote(r.Data).ID == p.ID)", `(p.Unique || ReadNote(r.Data).ID != "")`}},
			tests: []string{"TestLostConnectionsAtAnyPointLeaveNoOrphan"},
		},
		{
			number: 32, bug: "a release deletes whatever has the name by then", where: "zk-ruby #34, etcd #22082",
			edits: []edit{{"internal/queue/remove.go", "\t\tif !p.Unique {\n", "\t\tif false {\n"}},
			tests: []string{"TestNoEndOfAHoldHitsTheNodeOfASuccessor"},
		},
		{
			number: 33, bug: "a MultiLock takes its locks in the order in which they were given", where: "Curator's InterProcessMultiLock",
			edits: []edit{{"multilock.go", "slices.SortStableFunc(m.parts, func", "slices.SortStableFunc(m.parts[:0], func"}},
			tests: []string{"TestMultiLocksInOppositeOrdersDoNotDeadlock"},
		},
		{
			number: 34, bug: "a semaphore lets in who was thrown out of its turnstile meanwhile", where: "Kleppmann 2016, redisson #4684",
			edits: []edit{{"turnstile.go", "[]zk.Op{zk.DeleteOp(turn.Path(), zk.AnyVersion), ", "[]zk.Op{zk.CheckOp(s.lock.Path, zk.AnyVersion), "}},
			tests: []string{"TestSleeperAtTheTurnstileTakesNothing"},
		},
		{
			number: 35, simulated: true, bug: "many count a semaphore's permits at the same time, and all come in", where: "kazoo #213",
			edits: []edit{{"turnstile.go", "s.waiter(n).enter(ctx, names.Mutex, wait)", "s.waiter(n).enter(ctx, names.Read, wait)"}},
			tests: []string{"TestManyCallersUnderFaults"},
		},
		{
			number: 36, bug: "a semaphore lets in on a limit that was changed meanwhile", where: "–",
			edits: []edit{{"turnstile.go", "zk.CheckOp(s.lock.Path, version)", "zk.CheckOp(s.lock.Path, zk.AnyVersion)"}},
			tests: []string{"TestAdmissionOnAnOldNumberFails"},
		},
		{
			number: 37, bug: "a lock ends with the context that it was taken with", where: "vitess #11794",
			edits: []edit{{"hold.go", "context.WithoutCancel(ctx)", "ctx"}},
			tests: []string{"TestContextOfLockBoundsTheWaitNotTheHold"},
		},
		{
			number: 38, bug: "a writer that steps down gets a token above those of writers that wait", where: "CURATOR-621, CURATOR-276",
			edits: []edit{{"reentry.go", "\tp.Token = w.Token\n\treturn", "\treturn"}},
			tests: []string{"TestWriterTakesTheReadSideAtItsOwnPlace"},
		},
		{
			number: 39, bug: "Commit does not check that the lock is held", where: "CURATOR-607",
			edits: []edit{{"hold.go", "checks = append(checks, zk.CheckOp(p.Path(), zk.AnyVersion))", "checks = append(checks, zk.CheckOp(p.Queue.Path, zk.AnyVersion))"}},
			tests: []string{"TestCommitAfterTheLossDoesNothing"},
		},
		{
			number: 40, bug: "Unlock removes the node first and tells the work later", where: "–",
			edits: []edit{
				{"hold.go", "\th.unlocked = true\n\th.cancel(ErrNotHeld)\n\treturn h.loss, true\n", "\th.unlocked = true\n\treturn h.loss, true\n"},
				{"hold.go", "func (h *Hold) Unlock() error {\n", "func (h *Hold) Unlock() error {\n\tdefer h.cancel(ErrNotHeld)\n"},
			},
			tests: []string{"TestContextEndsBeforeTheNodeGoes"},
		},
		{
			number: 41, bug: "children that are no contenders stand in the queue", where: "kazoo #309, CURATOR-43",
			edits: []edit{{"internal/queue/names/grammar.go", "\t\tfor _, f := range g.exclusive {\n\t\t\tif f.matches(c.Form) {", "\t\tfor _, f := range g.exclusive {\n\t\t\tif true || f.matches(c.Form) {"}},
			tests: []string{"TestForeignChildrenAreNoContenders"},
		},
		{
			number: 42, bug: "a fence lets an older token in", where: "–",
			edits: []edit{{"fence/http.go", "if token < r.newest {", "if token < 0 {"}},
			pkg:   "fence", tests: []string{"TestGateRefusesWhoIsOlder"},
		},
	}
}

// ofTheHandoff are those of a lock that comes to the next in line without another look at
// the queue (await.go).
func ofTheHandoff() []mutant {
	return []mutant{
		{
			number: 66, bug: "the node ahead goes and our own is not asked about, though it went before", where: "–",
			edits: []edit{{"internal/queue/await.go", "\tif p.watches.own == nil {\n\t\treturn false, nil\n\t}\n\tselect", "\tif true {\n\t\treturn true, nil\n\t}\n\tselect"}},
			pkg:   "internal/queue", tests: []string{"TestEventsThatComeTogetherAreTakenInOrder"},
		},
		{
			number: 67, bug: "events of a catch-up are taken to come in order", where: "–",
			edits: []edit{{"internal/queue/await.go", "a.Last() && !ev.CatchUp", "a.Last()"}},
			pkg:   "internal/queue", tests: []string{"TestCatchUpThatComesInPiecesIsNoRelease"},
		},
		{
			number: 68, bug: "a reader in the place of the writer that went is overlooked", where: "CURATOR-621, the other way round",
			edits: []edit{{"internal/queue/names/ahead.go", `a.Far == "" && !a.Replaced`, `a.Far == ""`}},
			tests: []string{"TestReaderInAWritersPlaceIsWaitedFor"},
		},
		{
			number: 69, bug: "a mark of somebody further ahead is taken for proof that all have gone", where: "–",
			edits: []edit{{"internal/queue/await.go", "readWatermark(found.Data) >= p.watches.far", "readWatermark(found.Data) != 0*p.watches.far"}},
			pkg:   "internal/queue", tests: []string{"TestMarkOfSomebodyFurtherAheadIsNoProof"},
		},
		{
			number: 70, bug: "a holder in a long queue writes its mark over somebody's data", where: "–",
			edits: []edit{{"internal/queue/watermark.go", "free: err == nil && Unclaimed(data) && readRecord(data) == nil}", "free: err == nil && len(data) >= 0}"}},
			pkg:   "internal/queue", tests: []string{"TestMarksLeaveOthersDataAlone"},
		},
	}
}

// ofTheClient are others that concern the client.
func ofTheClient() []mutant {
	return []mutant{
		{
			number: 43, bug: "another session in answer to a resume is taken for the old one", where: "ClickHouse #116690",
			edits: []edit{{"zk/session.go", "case resp.SessionID != s.id:", "case resp.SessionID == 0:"}},
			pkg:   "zk", tests: []string{"TestAnotherSessionIdIsAnExpiry"},
		},
		{
			number: 44, bug: "events keep the session proven though no request is answered", where: "go-zookeeper, ZooKeeper's own client",
			edits: []edit{{"zk/conn.go", "\tfired := c.s.watches.fire(ev.Type, ev.Path)\n", "\tc.s.prove(now())\n\tfired := c.s.watches.fire(ev.Type, ev.Path)\n"}},
			pkg:   "zk", tests: []string{"TestEventsDoNotKeepTheSessionAlive"},
		},
		{
			number: 45, bug: "watches are restored relative to the latest answer, though some of them are not armed yet", where: "–",
			edits: []edit{{"zk/conn.go", "\tif s.registering == 0 {\n", "\tif true {\n"}},
			pkg:   "zk", tests: []string{"TestBreakBetweenTwoPartsOfTheRestorationLosesNoEvent"},
		},
		{
			number: 46, bug: "all watches are restored in one request that no server takes", where: "ZOOKEEPER-706, Saturn #745, samuel #167",
			edits: []edit{{"zk/watch.go", "const maxSetWatches = 128 << 10", "const maxSetWatches = 128 << 20"}},
			pkg:   "zk", tests: []string{"TestManyWatchesAreRestoredInSeveralRequests"},
		},
		{
			number: 47, bug: "a lease is granted on the proof that happens to be there", where: "etcd #11456, #9921",
			edits: []edit{{"zk/lease.go", "switch s.proof.opening(t, s.timeout, !t.After(s.warm) || l.reattached) {", "switch proven {"}},
			pkg:   "zk", tests: []string{"TestLeaseOfASessionThatEndsMeanwhileIsRefused"},
		},
		{
			number: 48, bug: "the deadline is the whole session timeout, with nothing off for clocks and schedulers", where: "–",
			edits: []edit{{"zk/proof.go", "return base.Add(timeout - timeout/100 - guard)", "return base.Add(timeout - guard + guard)"}},
			pkg:   "zk", tests: []string{"TestDeadlineIsAheadOfASlowClock"},
		},
		{
			number: 49, bug: "a session that lapsed here goes on because its server still takes it", where: "–",
			edits: []edit{{"zk/session.go", "\tif !now().Before(s.deadline()) {\n\t\t// The timer of ctx", "\tif false {\n\t\t// The timer of ctx"}},
			pkg:   "zk", tests: []string{"TestSessionThatLapsedWithoutAConnectionIsNotResumed"},
		},
		{
			number: 65, bug: "the time asleep is read from the clock that stops", where: "golang/go #24595",
			edits: []edit{{"zk/clock_linux.go", "unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)", "unix.ClockGettime(unix.CLOCK_MONOTONIC, &boot)"}},
			pkg:   "zk", tests: []string{"TestSuspendIsReadFromTheClockThatCountsIt"},
		},
		{
			number: 50, bug: "a request that may have been executed is said to be safe to repeat", where: "–",
			edits: []edit{{"zk/queue.go", "\t\tr.left = r.fail(cause, true)\n", "\t\tr.left = r.fail(cause, false)\n"}},
			pkg:   "zk", tests: []string{"TestEndOfContextSaysWhetherTheRequestWasSent"},
		},
	}
}

// ofTheServer are others that concern the server.
func ofTheServer() []mutant {
	return []mutant{
		{
			number: 51, bug: "the log is not synced", where: "NATS 2.12 (Jepsen, 2025)",
			edits: []edit{{"zkserver/internal/store/journal.go", "if err := j.file.Sync(); err != nil {", "if err := error(nil); err != nil {"}},
			pkg:   "zkserver/internal/store", tests: []string{"TestCrashImagesHaveAllThatWasAcknowledged", "TestPowerFailsBehindEveryChange"},
		},
		{
			number: 52, bug: "the server goes on after a commit that failed, and tries it again", where: "five databases (Rebello et al., 2020)",
			edits: []edit{{"zkserver/commit.go", "\tif err := s.store.Commit(&b.changes); err != nil {\n",
				"\terr := s.store.Commit(&b.changes)\n\tif err != nil {\n\t\terr = s.store.Commit(&b.changes)\n\t}\n\tif err != nil {\n"}},
			pkg: "zkserver", tests: []string{"TestFailedCommitStopsTheServer"},
		},
		{
			number: 53, bug: "an event comes behind an answer that shows the change", where: "–",
			edits: []edit{{"zkserver/write.go", "\t\ts.notify(c)\n\t\ts.replyWith(c, r.xid, code, &zkproto.CreateResponse{Path: path})",
				"\t\ts.replyWith(c, r.xid, code, &zkproto.CreateResponse{Path: path})\n\t\ts.notify(c)"}},
			pkg: "zkserver", tests: []string{"TestEventsComeBeforeWhatReflectsThem"},
		},
		{
			number: 54, bug: "the server arms a restored watch though the node has changed meanwhile", where: "ZOOKEEPER-1667",
			edits: []edit{{"zkserver/internal/tree/watch.go", "\trel := req.RelativeZxid\n", "\trel := max(req.RelativeZxid, 1<<62)\n"}},
			pkg:   "zkserver/internal/tree", tests: []string{"TestSetWatchesCatchesUpOrArms"},
		},
		{
			number: 55, bug: "sequence numbers are the number of children, so they come back", where: "–",
			edits: []edit{{"zkserver/internal/tree/write.go", "sequenceDigits, parent.creations)", "sequenceDigits, parent.count())"}},
			pkg:   "zkserver/internal/tree", tests: []string{"TestSequenceCountsCreationsAndWraps"},
		},
		{
			number: 56, bug: "zxids of writes that failed come back after a crash", where: "–",
			edits: []edit{{"zkserver/commit.go", "\to.batch.changes.PutCeiling(o.ceiling)\n", ""}},
			pkg:   "zkserver", tests: []string{"TestZxidsGoOnAfterAPlannedStop"},
		},
		{
			number: 57, bug: "a session expires before its timeout", where: "–",
			edits: []edit{{"zkserver/ending.go", "at.Sub(sess.touched) < sess.timeout {", "at.Sub(sess.touched) < sess.timeout*4/5 {"}},
			pkg:   "zkserver", tests: []string{"TestSessionExpiresWithinATickOfItsTimeout"},
		},
		{
			number: 58, bug: "a transaction that failed has fired its watches", where: "–",
			edits: []edit{{"zkserver/internal/tree/multi.go", "\tif code != zkproto.CodeOK {\n\t\tfor i := len(t.undo) - 1", "\tif code != zkproto.CodeOK {\n\t\tfor _, tr := range t.triggers {\n\t\t\tt.fire(tr)\n\t\t}\n\t\tfor i := len(t.undo) - 1"}},
			pkg:   "zkserver/internal/tree", tests: []string{"TestMultiIsAllOrNothing"},
		},
		{
			number: 59, bug: "a session's password follows from its id alone", where: "ZooKeeper to this day",
			edits: []edit{{"zkserver/session.go", "hmac.New(sha256.New, s.secret)", "hmac.New(sha256.New, nil)"}},
			pkg:   "zkserver", tests: []string{"TestPasswordsOfAnotherServerOpenNothing"},
		},
		{
			number: 60, bug: "a log that has lost its end is served", where: "NATS 2.12 (Jepsen, 2025)",
			edits: []edit{{"zkserver/internal/store/witness.go", "if must <= last {", "if must <= last+1<<40 {"}},
			pkg:   "zkserver/internal/store", tests: []string{"TestEveryDamageIsDetectedOrHarmless"},
		},
	}
}

// impatient says how long the tests of the command wait for a word that may never come.
var impatient = []string{"-patience=5s"}

// ofTheCommand are others that concern holdfast run.
func ofTheCommand() []mutant {
	return []mutant{
		{
			number: 61, bug: "the shell is killed, and what it has started goes on", where: "consul #2022, #873",
			edits: []edit{{"internal/supervise/job_linux.go", "unix.Kill(-j.pid, s) == unix.ESRCH", "true"}},
			pkg:   "internal/supervise", tests: []string{"TestSignalsReachTheWholeGroup"}, args: impatient,
		},
		{
			number: 62, bug: "the command is told to stop when the lock is gone already", where: "consul #9788",
			edits: []edit{{"internal/supervise/guard.go", "if !g.told && near {", "if !g.told && left <= 0 {"}},
			pkg:   "internal/supervise", tests: []string{"TestDeadlineStopsTheCommandInTime"}, args: impatient,
		},
		{
			number: 63, bug: "the command goes on after the lock was lost", where: "etcdctl lock",
			edits: []edit{{"internal/supervise/supervisor_linux.go", "\t\t\t_ = r.link.send(verbKill, 0, \"\")\n\t\t\tif r.Ending.OnLost == LostKills {\n\t\t\t\tr.backstop.in(late)\n\t\t\t}\n", ""}},
			pkg:   "internal/supervise", tests: []string{"TestCertainLossKillsTheCommandAtOnce"}, args: impatient,
		},
		{
			number: 64, bug: "the earliest deadline that was ever seen counts for ever", where: "–",
			edits: []edit{{"internal/supervise/shared_linux.go", "\treturn until < m.until.Swap(until)", "\tif u := m.until.Load(); u != 0 {\n\t\tuntil = min(until, u)\n\t}\n\treturn until < m.until.Swap(until)"}},
			pkg:   "internal/supervise", tests: []string{"TestTheDeadlineIsFollowedWhileItMoves"}, args: impatient,
		},
	}
}
