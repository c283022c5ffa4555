package mutants

// ofTheGuarantees are bugs that break what docs/explanation/guarantees.md claims, for the tests that evidence.md
// names. Each breaks the claim itself.
func ofTheGuarantees() []mutant {
	const late = "return base.Add(timeout - timeout/100 - guard + time.Minute)"
	return []mutant{
		{
			number: 297, bug: "the last in the queue is served first", where: "–",
			edits: []edit{{"internal/queue/names/contender.go", "return a-b < 0", "return b-a < 0"}},
			tests: []string{"TestOneHolderAtATimeFirstComeFirstServed", "TestMutexAndRWMutexOnOnePathExcludeEachOther", "TestManyCallersUnderFaults", "TestOwnNodeOfADyingSessionIsWaitedFor"},
		},
		{
			number: 298, bug: "a semaphore lets in one permit too many", where: "–",
			edits: []edit{{"turnstile.go", "case s.used(v)+n <= v.limit:", "case s.used(v)+n <= v.limit+1:"}},
			tests: []string{"TestAsManyHoldAsTheNumberSays", "TestAcquireOfSeveralIsAtomicAndInOrder"},
		},
		{
			number: 299, bug: "the removal of a waiter's own node is not looked at when its turn comes", where: "etcd #11456",
			edits: []edit{{"internal/queue/await.go", "\tselect {\n\tcase ev := <-p.watches.own.C: // rare: our own node goes or changes before the node ahead goes\n\t\treturn false, p.ownFired(ev)\n\tdefault:\n\t\treturn true, nil\n\t}", "\treturn true, nil"}},
			pkg:   "internal/queue", tests: []string{"TestRemovedNodeIsNeverAcquired"},
		},
		{
			number: 300, bug: "a waiter takes the second nearest for the first in line when that leaves", where: "–",
			edits: []edit{{"internal/queue/await.go", "\t\treturn p.position(ctx, found.Children, nil)\n", "\t\treturn a.FarGone(), nil\n"}},
			pkg:   "internal/queue", tests: []string{"TestLeavingTheQueueIsNoRelease"},
		},
		{
			number: 301, bug: "Commit does not care whether the Hold is over, and writes in whatever session the client has", where: "–",
			edits: []edit{
				{"hold.go", "\tif err := h.over(); err != nil {\n\t\treturn nil, err\n\t}\n\tvar checks", "\tvar checks"},
				{"hold.go", "checks = append(checks, zk.CheckOp(p.Path(), zk.AnyVersion))", "checks = append(checks, zk.CheckOp(p.Queue.Path, zk.AnyVersion))"},
				{"hold.go", "results, err = session.Multi(", "results, err = h.tenures[0].Client.Multi("},
			},
			tests: []string{"TestCommitWritesWhileHeld", "TestCommitAfterExpiryIsLost", "TestCommitAfterTheLossDoesNothing", "TestHolderThatWakesUpTooLateIsFenced"},
		},
		{
			number: 302, bug: "a Hold that is over counts as one that a re-entrant Lock joins", where: "–",
			edits: []edit{{"reentry.go", "\t\tif h.ctx.Err() != nil {\n\t\t\tcontinue\n\t\t}\n", ""}},
			tests: []string{"TestReentryIsByContext"},
		},
		{
			number: 303, bug: "permits whose answer was not waited for are forgotten", where: "–",
			edits: []edit{{"turnstile.go", "p.Sent(err == nil || zk.MayHaveHappened(err))", "p.Sent(err == nil)"}},
			tests: []string{"TestCancelledWaitLeavesNoNode"},
		},
		{
			number: 304, bug: "watches are not registered again after a reconnect", where: "–",
			edits: []edit{{"zk/session.go", `range s.watches.registrations(s.watchZxid, "") {`, `range s.watches.registrations(s.watchZxid, "")[:0] {`}},
			tests: []string{"TestHoldsAndWaitsSurviveReconnects"},
		},
		{
			number: 305, bug: "a server that refuses to register watches is trusted with them", where: "–",
			edits: []edit{{"zk/conn.go", `broken = fmt.Errorf("watches not restored: %w", h.Err)`, `_ = h.Err`}},
			pkg:   "zk", tests: []string{"TestWatchesThatAreNotRestoredAreNotForgotten"},
		},
		{
			number: 306, bug: "holders are told a minute late that their session has not been heard", where: "–",
			edits: []edit{{"zk/proof.go", "return base.Add(timeout - timeout/100 - guard)", late}},
			tests: []string{"TestHolderIsToldBeforeTheLockCanPassOn", "TestHolderIsToldBeforeTheNext"},
		},
		{
			number: 307, bug: "a session ends a minute late for its client", where: "–",
			edits: []edit{{"zk/proof.go", "return base.Add(timeout - timeout/100 - guard)", late}},
			pkg:   "zk", tests: []string{"TestEventsDoNotKeepTheSessionAlive", "TestSessionLapsesWhenNobodyAnswers"},
		},
		{
			number: 308, bug: "a notification counts as proof that the session lives", where: "–",
			edits: []edit{{"zk/conn.go", "\tcatchUp := c.s.registering > 0\n", "\tc.s.prove(now())\n\tcatchUp := c.s.registering > 0\n"}},
			pkg:   "zk", tests: []string{"TestEventsDoNotKeepTheSessionAlive"},
		},
		{
			number: 309, bug: "nothing of the time before the deadline is kept for the kill", where: "–",
			edits: []edit{{"internal/supervise/supervise.go", "KillMargin = 250 * time.Millisecond", "KillMargin = -time.Second"}},
			pkg:   "internal/supervise", tests: []string{"TestDeadlineKillsWhatIgnoresTerm"}, args: impatient,
		},
		{
			number: 310, bug: "a command whose deadline has passed still has its grace", where: "–",
			edits: []edit{
				{"internal/supervise/guard.go", "\t\tif !g.killed {\n\t\t\tg.kill(sayTooOld)\n\t\t}\n\t\treturn\n", "\t\tpatience = g.ending.Grace\n"},
				{"internal/supervise/guard.go", "\tg.told = true\n\tg.doubt()\n\tif !g.killed {\n", "\tif !g.told {\n"},
				{"internal/supervise/supervisor_linux.go", "inboxPatience = 20 * time.Millisecond", "inboxPatience = time.Second"},
			},
			pkg: "internal/supervise", tests: []string{"TestLossPastTheDeadlineKillsAtOnce"}, args: impatient,
		},
		{
			number: 311, bug: "the lock is released with the command's children still running", where: "flock(1), etcdctl lock",
			edits: []edit{{"internal/supervise/job_linux.go", "\tj.reaped = true\n\tif j.joined {", "\tif j.reaped = true; tell || !tell {\n\t\treturn\n\t}\n\tif j.joined {"}},
			pkg:   "internal/supervise", tests: []string{"TestLeftoversInTheGroupAreGoneBeforeTheEnd"}, args: atOnce,
		},
		{
			number: 312, bug: "the next in line lists the queue when its turn comes", where: "Curator, kazoo",
			edits: []edit{{"internal/queue/await.go", "p.nearGone(ctx, a, a.Last() && !ev.CatchUp)", "p.nearGone(ctx, a, false)"}},
			pkg:   "internal/queue", tests: []string{"TestReleaseHandsOverWithoutARequest"},
		},
		{
			number: 313, bug: "a restart gives no session its timeout again", where: "–",
			edits: []edit{{"zkserver/session.go", "\t\t\tsess.touched = now\n", "\t\t\tsess.touched = now.Add(-sess.timeout / 2)\n"}},
			pkg:   "zkserver", tests: []string{"TestSessionsHaveFullTimeoutAfterRestart"},
		},
		{
			number: 314, bug: "any password of this server opens any session", where: "–",
			edits: []edit{{"zkserver/session.go", "\tmac.Write(binary.BigEndian.AppendUint64(nil, uint64(id)))\n", "\tmac.Write(binary.BigEndian.AppendUint64(nil, uint64(id*0)))\n"}},
			pkg:   "zkserver", tests: []string{"TestASessionsPasswordDoesNotFollowFromItsID"},
		},
		{
			number: 315, bug: "a server whose data are older serves a client that has seen more", where: "–",
			edits: []edit{{"zkserver/session.go", "if m.LastZxidSeen > o.zxid {", "if m.LastZxidSeen > o.zxid && m.SessionID != 0 {"}},
			pkg:   "zkserver", tests: []string{"TestClientFromTheFutureIsTurnedAway"},
		},
		{
			number: 316, bug: "a session that no server takes back is tried for ever", where: "–",
			edits: []edit{{"zk/session.go", "context.WithDeadlineCause(ctx, s.Deadline(), ErrSessionExpired)", "context.WithDeadlineCause(ctx, s.Deadline().Add(24*time.Hour), ErrSessionExpired)"}},
			pkg:   "zk", tests: []string{"TestServerWhoseDataWasWipedDoesNotTrapTheClient"},
		},
		{
			number: 317, bug: "a holder is not told that its node was removed", where: "–",
			edits: []edit{
				{"internal/tenure/tenure.go", "\t\t\t\t\tt.Lose(queue.ErrGone) // unless it was us\n", ""},
				{"internal/tenure/tenure.go", "\t\t\tt.Lose(queue.ErrGone)\n\t\t\treturn\n\t\tcase session", "\t\t\treturn\n\t\tcase session"},
			},
			tests: []string{"TestRemovedNodeIsALostLock"},
		},
		{
			number: 318, bug: "a holder looks at its node for the first time after a second", where: "–",
			edits: []edit{{"internal/tenure/tenure.go", "time.AfterFunc(GracePeriod, t.startWatching)", "time.AfterFunc(GracePeriod+time.Second, t.startWatching)"}},
			tests: []string{"TestYoungHoldIsToldAfterItsYouth"},
		},
		{
			number: 319, bug: "a holder that has just begun is not told of the end of its session at once", where: "–",
			edits: []edit{{"internal/tenure/tenure.go", "context.AfterFunc(session.Context(), func() { t.Lose(context.Cause(session.Context())) })", "context.AfterFunc(session.Context(), func() {\n\t\ttime.AfterFunc(time.Second, func() { t.Lose(context.Cause(session.Context())) })\n\t})"}},
			tests: []string{"TestEndOfTheSessionIsToldAtOnce"},
		},
		{
			number: 320, bug: "of the parts of a MultiLock, one whose delete lost its answer stays in the queue", where: "CURATOR-486",
			edits: []edit{{"internal/queue/remove.go", "\t\t\tdoubt = true\n", "\t\t\treturn nil\n"}},
			tests: []string{"TestLostConnectionsAtAnyPointLeaveNoOrphan"},
		},
		{
			number: 321, bug: "of the Holds of one tenure, only the first is told of the loss", where: "–",
			edits: []edit{{"internal/tenure/tenure.go", "\tfor _, h := range t.holds {\n\t\th.Lose(loss)", "\tfor _, h := range t.holds[:min(1, len(t.holds))] {\n\t\th.Lose(loss)"}},
			tests: []string{"TestAllHoldsOfOneTenureAreTold"},
		},
		{
			number: 322, bug: "a holder is not told that its session has expired", where: "–",
			edits: []edit{{"internal/tenure/tenure.go", "func() { t.Lose(context.Cause(session.Context())) })", "func() {})"}},
			tests: []string{"TestEndOfASessionEndsHoldsAndNoWaits"},
		},
		{
			number: 323, bug: "permits whose answer was lost are taken a second time", where: "–",
			edits: []edit{{"turnstile.go", "\t\t\t\t\tfound++\n", "\t\t\t\t\tp.Named(\"\")\n"}},
			tests: []string{"TestLostConnectionsAtAnyPointLeaveNoOrphan"},
		},
		{
			number: 324, bug: "a wait ends with its session, or with its node", where: "–",
			edits: []edit{{"internal/queue/pace.go", "\t\treturn 0, context.Cause(ctx)\n\t}\n\treturn p, nil\n", "\t\treturn 0, context.Cause(ctx)\n\t}\n\treturn 0, err\n"}},
			tests: []string{"TestEndOfASessionEndsHoldsAndNoWaits", "TestWaiterWhoseNodeWasRemovedQueuesAgain", "TestElectionSurvivesTheEndOfSessions"},
		},
		{
			number: 325, bug: "a writer that steps down keeps readers out until the last Unlock", where: "Curator before 5.5.0",
			edits: []edit{{"reentry.go", "\treturn l.stepDown(ctx, writer)\n", "\treturn l.join(ctx, writer)\n"}},
			tests: []string{"TestDowngradeLetsTheReadersBehindIn"},
		},
		{
			number: 326, bug: "a Hold can be unlocked several times", where: "–",
			edits: []edit{{"hold.go", "\tif h.unlocked {\n\t\treturn nil, false\n", "\tif false {\n\t\treturn nil, false\n"}},
			tests: []string{"TestUnlockByManyAtOnceSucceedsOnce"},
		},
		{
			number: 327, bug: "every lock is re-entrant", where: "–",
			edits: []edit{{"reentry.go", "s == names.Read || l.reentrant && (writes || s == names.Read)", "s == names.Read || writes || s == names.Read"}},
			tests: []string{"TestReaderJoinsItselfOnlyIfReentrant"},
		},
		{
			number: 328, bug: "a lock makes its directory only once", where: "–",
			edits: []edit{
				{"internal/queue/queue.go", "type Queue struct {\n", "type Queue struct {\n\tmade bool\n"},
				{"internal/queue/join.go", "\t\t\tif err := p.Ensure(ctx, p.Dir); err != nil {\n\t\t\t\treturn names.Ahead{}, err", "\t\t\tif p.Queue.made {\n\t\t\t\treturn names.Ahead{}, err\n\t\t\t}\n\t\t\tp.Queue.made = true\n\t\t\tif err := p.Ensure(ctx, p.Dir); err != nil {\n\t\t\t\treturn names.Ahead{}, err"},
			},
			tests: []string{"TestDirectoryThatIsRemovedIsMadeAgain"},
		},
		{
			number: 329, bug: "whatever is in the directory of permits counts as a permit", where: "kazoo's Semaphore",
			edits: []edit{{"internal/queue/names/grammar.go", "return len(permits)", "return len(names)"}},
			tests: []string{"TestForeignChildrenAreNoContenders"},
		},
		{
			number: 330, bug: "the queue is listed at a server that may be behind", where: "–",
			edits: []edit{{"list.go", "err = queue.BehindWrite(ctx, c, path, func() (err error) {\n\t\tentries, err", "err = zk.Retry(ctx, func() (err error) {\n\t\tentries, err"}},
			tests: []string{"TestListLetsTheServerCatchUpBeforeItReads"},
		},
		{
			number: 331, bug: "watches of a session that goes on elsewhere are not registered there", where: "–",
			edits: []edit{{"zk/session.go", `range s.watches.registrations(s.watchZxid, "") {`, `range s.watches.registrations(s.watchZxid, "")[:0] {`}},
			pkg:   "zk", tests: []string{"TestWatchesSurviveAReconnect", "TestQueueOutlivesTheConnection"},
		},
	}
}

// ofTheHazards are bugs for the tests that docs/contributing/hazards.md names.
func ofTheHazards() []mutant {
	return []mutant{
		{
			number: 332, bug: "a client that is closed leaves its session to the server", where: "–",
			edits: []edit{{"zk/session.go", "s.queue, s.reattaching = append(s.queue, bye), false", "s.reattaching = false"}},
			pkg:   "zk", tests: []string{"TestCloseEndsTheSessionAtTheServer"},
		},
		{
			number: 333, bug: "an answer that is too large is a lost connection", where: "helix #962",
			edits: []edit{{"zk/conn.go", "\t\t\t\tc.refuseReply(err)\n", ""}},
			pkg:   "zk", tests: []string{"TestAnswerThatIsTooLargeIsAnErrorOfItsOwn"},
		},
		{
			number: 334, bug: "a server that says nothing is waited for", where: "–",
			edits: []edit{{"zk/session.go", "silent := time.Since(c.heard) > timeout*2/5", "silent := false"}},
			pkg:   "zk", tests: []string{"TestSilentServerIsLeftForAnotherInTime", "TestFrameThatNeverEndsIsSilence"},
		},
		{
			number: 335, bug: "a request that a server has refused counts as one that may have happened", where: "–",
			edits: []edit{{"zk/conn.go", "req.fail(ErrConnectionLoss, false), h.Err", "req.fail(ErrConnectionLoss, true), h.Err"}},
			pkg:   "zk", tests: []string{"TestMovedSessionIsSafeToRetry"},
		},
		{
			number: 336, bug: "an error that the client does not know is a lost connection", where: "–",
			edits: []edit{{"zk/conn.go", "\t\toutcome = req.fail(h.Err, false)\n", "\t\toutcome = req.fail(ErrConnectionLoss, false)\n"}},
			pkg:   "zk", tests: []string{"TestUnknownErrorCodesAreErrorsAndNothingElse"},
		},
		{
			number: 337, bug: "the end of a session by its server is told as a Close", where: "–",
			edits: []edit{{"zk/session.go", "\ts.cancel(cause)\n\ts.mu.Lock()\n", "\tcause = ErrClosed\n\ts.cancel(cause)\n\ts.mu.Lock()\n"}},
			pkg:   "zk", tests: []string{"TestExpiryAtTheServerIsTold", "TestRefusedResumeIsAnExpiry"},
		},
		{
			number: 338, bug: "events tell the path with the chroot", where: "–",
			edits: []edit{{"zk/watch.go", "\treturn w.node[w.chroot:]\n", "\treturn w.node\n"}},
			pkg:   "zk", tests: []string{"TestChrootIsInvisible"},
		},
		{
			number: 339, bug: "a watch that is stopped takes those of others along at the server", where: "–",
			edits: []edit{{"zk/watch.go", "return t.oneShots(k) || t.persistent[k.node] != nil", "return false"}},
			pkg:   "zk", tests: []string{"TestStoppedWatchIsRemovedAtTheServerWhenNobodyNeedsIt"},
		},
		{
			number: 340, bug: "a server that hangs up at once is asked again at once", where: "–",
			edits: []edit{{"zk/session.go", "\t\t\tshort.pause(s.client.ctx, began, s.Timeout())\n", "\t\t\t_, _ = short, began\n"}},
			pkg:   "zk", tests: []string{"TestServerThatEndsEverySessionAtOnceIsNotAskedInATightLoop"},
		},
		{
			number: 341, bug: "a request whose answer was lost counts as one that was not sent", where: "–",
			edits: []edit{{"zk/session.go", "r.fail(err, demand == nil || r.xid != demand.xid)", "r.fail(err, demand != nil && r.xid != demand.xid)"}},
			pkg:   "zk", tests: []string{"TestLostRepliesAreToldFromLostRequests"},
		},
		{
			number: 342, bug: "an event is told in a goroutine of its own, behind later answers", where: "go-zookeeper",
			edits: []edit{{"zk/conn.go", "\tfor _, w := range fired {\n\t\tw.c <- Event{Type: ev.Type, Path: w.path(), CatchUp: catchUp}\n\t}\n", "\tgo func() {\n\t\ttime.Sleep(time.Millisecond)\n\t\tfor _, w := range fired {\n\t\t\tw.c <- Event{Type: ev.Type, Path: w.path(), CatchUp: catchUp}\n\t\t}\n\t}()\n"}},
			pkg:   "zk", tests: []string{"TestEventComesBeforeTheReadThatShowsTheChange"},
		},
		{
			number: 343, bug: "the parents of a lock are persistent nodes in every layout", where: "–",
			edits: []edit{{"internal/queue/join.go", "[]byte{}, mode, p.Queue.directoryACL(path)...)", "[]byte{}, zk.Persistent, p.Queue.directoryACL(path)...)"}},
			tests: []string{"TestParentsAreWhatTheLayoutSays"},
		},
		{
			number: 344, bug: "the parents of a lock are open to everybody", where: "–",
			edits: []edit{{"internal/queue/join.go", "[]byte{}, mode, p.Queue.directoryACL(path)...)", "[]byte{}, mode)"}},
			tests: []string{"TestWithACLIsOnEveryNodeThatTheLockMakes"},
		},
		{
			number: 345, bug: "a node whose create lost its answer is known by its data alone", where: "–",
			edits: []edit{{"internal/queue/find.go", "(p.Unique || ReadNote(r.Data).ID == p.ID)", `ReadNote(r.Data).ID == p.ID && p.ID != ""`}},
			tests: []string{"TestManyCallersUnderFaults"},
		},
		{
			number: 346, bug: "a step down whose answer was lost fails, and leaves what it has made", where: "–",
			edits: []edit{{"reentry.go", "case err == nil, errors.Is(err, zk.ErrConnectionLoss):", "case err == nil:"}},
			tests: []string{"TestDowngradeSurvivesALostConnection"},
		},
		{
			number: 347, bug: "a holder whose directory is gone is told two seconds late", where: "–",
			edits: []edit{{"zk/conn.go", "\t\tc.s.end(err)\n\t}\n\tc.fail(err)", "\t\ttime.Sleep(2 * time.Second)\n\t\tc.s.end(err)\n\t}\n\tc.fail(err)"}},
			pkg:   "zklocal", tests: []string{"TestNobodyHoldsBesideAHolderWhoseDirectoryIsGone"}, args: []string{"-failfast"},
		},
		{
			number: 348, bug: "of a lock that a MultiLock names as reader and as writer, the reader stays", where: "–",
			edits: []edit{{"multilock.go", "cmp.Compare(b.strength, a.strength)", "cmp.Compare(a.strength, b.strength)"}},
			tests: []string{"TestMultiLockTakesDuplicatesOnce"},
		},
		{
			number: 349, bug: "paths are left for the server to check", where: "–",
			edits: []edit{{"zkproto/path.go", "\tcase path == \"\":\n", "\tcase path != \"\":\n\t\treturn nil\n\tcase path == \"\":\n"}},
			pkg:   "zk", tests: []string{"TestRequestsThatNoServerAcceptsAreNotSent"},
		},
		{
			number: 350, bug: "the timeout of a wait begins anew at every wake-up", where: "kazoo",
			edits: []edit{{"internal/queue/await.go", "func (p *Place) await(ctx context.Context) error {\n", "func (p *Place) await(ctx context.Context) error {\n\tif d, ok := ctx.Deadline(); ok {\n\t\tvar cancel context.CancelFunc\n\t\tctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), d.Sub(p.Joined()))\n\t\tdefer cancel()\n\t}\n"}},
			tests: []string{"TestWaitIsBoundedAsAWholeHoweverOftenItWakes"},
		},
		{
			number: 351, bug: "all persistent watches are restored in one request", where: "ZOOKEEPER-706",
			edits: []edit{{"zk/persistent.go", "if size+len(node)+4 > maxSetWatches {", "if size < 0 {"}},
			pkg:   "zk", tests: []string{"TestPersistentWatchesAreRestoredInPieces"},
		},
		{
			number: 352, bug: "all clients pause for the same time between two attempts", where: "–",
			edits: []edit{{"zk/client.go", "time.NewTimer(d/2 + rand.N(d))", "time.NewTimer(d + 0*rand.N(d))"}},
			pkg:   "zk", tests: []string{"TestPausesBetweenAttemptsDiffer"},
		},
		{
			number: 353, bug: "a reader waits for nobody ahead", where: "–",
			edits: []edit{{"internal/queue/names/contender.go", "!(c.Shared && other.Shared)", "!c.Shared"}},
			pkg:   "internal/queue/names", tests: []string{"TestReaderWaitsForTheNearestWriterAheadOnly"},
		},
		{
			number: 354, bug: "the steps of a SASL login have the xid of a digest login", where: "ZooKeeper 3.5 with Netty counts them for ever",
			edits: []edit{{"zk/sasl.go", "zkproto.OpSASL, xid,", "zkproto.OpSASL, zkproto.XidAuth+0*xid,"}},
			pkg:   "zk", tests: []string{"TestSASLPacketsAreNumberedLikeRequests"},
		},
	}
}
