package mutants

// ofTheList are the twenty-four that the plan of our tests began with.
func ofTheList() []mutant {
	return []mutant{
		{
			number: 1, bug: "nobody ahead is taken for ours, though our own node is gone", where: "etcd #11456, go-zookeeper",
			edits: []edit{{"internal/queue/names/ahead.go", "\tcase !present:\n\t\treturn Ahead{}, ErrGone\n", ""}, {"internal/queue/names/ahead.go", "present = true", "_ = present"}},
			tests: []string{"TestNodeThatIsRemovedBeforeTheListIsNoHold"},
		},
		{
			number: 2, simulated: true, explored: true, bug: "a create whose answer was lost is made again, without a look for the first node", where: "samuel #229, zktools #2, accumulo #1086",
			edits: []edit{{"internal/queue/join.go", "listed, err := p.find(ctx)\n\t\t\tswitch", "listed, err := []string(nil), p.Session.Context().Err()\n\t\t\tswitch"}},
			tests: []string{"TestLostConnectionsAtAnyPointLeaveNoOrphan"},
		},
		{
			number: 3, simulated: true, bug: "one name for every attempt, and a node of that name is ours whatever its session", where: "CURATOR-604, CURATOR-498",
			edits: []edit{
				{"internal/queue/names/attempt.go", "\tid := newUUID()\n\ts, plain", "\tid := idOfTheProcess\n\ts, plain"},
				{"internal/queue/names/attempt.go", "// Attempt makes a name.\n", "var idOfTheProcess = newUUID()\n\n"},
				{"internal/queue/find.go", "r.Stat.EphemeralOwner == p.Session.ID() && (p.Unique || ReadNote(r.Data).ID == p.ID)",
					"(p.Unique || ReadNote(r.Data).ID == p.ID)"},
			},
			tests: []string{"TestOwnNodeOfADyingSessionIsWaitedFor"},
		},
		{
			number: 4, simulated: true, explored: true, bug: "a node ahead that has gone before it could be watched is waited for", where: "CURATOR-527, helix PR #44, samuel PR #10",
			edits: []edit{{"internal/queue/await.go", "// rare: the node ahead goes before it is watched\n\t\t\tp.ahead, err = p.nearGone(ctx, a, a.Last())",
				"// rare: the node ahead goes before it is watched\n\t\t\t<-ctx.Done()\n\t\t\terr = context.Cause(ctx)"}},
			tests: []string{"TestPredecessorThatVanishesBeforeTheWatch"},
		},
		{
			number: 5, simulated: true, explored: true, bug: "a delete whose answer was lost is not repeated", where: "CURATOR-486, CURATOR-678, kazoo #732",
			edits: []edit{{"internal/queue/remove.go", "\t\t\tdoubt = true\n", "\t\t\treturn nil\n"}},
			tests: []string{"TestUnlockOutlastsALostConnection", "TestLostConnectionsAtAnyPointLeaveNoOrphan"},
		},
		{
			number: 6, simulated: true, explored: true, bug: "a wait that ends leaves its node", where: "CURATOR-79, CURATOR-62, zk-ruby #49",
			edits: []edit{{"lock.go", "p.Leave(ctx) // or all", "_ = p // or all"}},
			tests: []string{"TestCancelledWaitLeavesNoNode", "TestOneHolderAtATimeFirstComeFirstServed"},
		},
		{
			number: 7, bug: "the proof counts from when the answer came", where: "CURATOR-460",
			edits: []edit{{"zk/conn.go", "s.prove(req.sent)", "s.prove(now())"}, {"zk/conn.go", "c.s.prove(c.pinged)", "c.s.prove(now())"}},
			pkg:   "zk",
			tests: []string{"TestDeadlineCountsFromTheSendOfTheAnsweredRequest", "TestDeadlineCountsFromTheSendOfTheAnsweredPing"},
		},
		{
			number: 8, bug: "answers of a follower are a proof", where: "ZooKeeper's own client, go-zookeeper, kazoo",
			edits: []edit{{"zk/session.go", "if len(s.leases) > 0 {\n\t\treturn deadlineFrom(", "if false {\n\t\treturn deadlineFrom("}},
			pkg:   "zk", tests: []string{"TestLeaseEndsWhenNothingIsCommittedAnyMore"},
		},
		{
			number: 9, bug: "the latest committed write alone is the proof", where: "the obvious rule",
			edits: []edit{{"zk/proof.go", "\tc := commit{sent, acked}\n", "\tc := commit{sent, acked}\n\tp.touch(sent)\n"}},
			pkg:   "zk", tests: []string{"TestProofTakesTwoStepsBack", "FuzzProofIsNeverAheadOfTheLeader"},
		},
		{
			number: 10, bug: "deadlines are by the wall clock", where: "CURATOR-442",
			edits: []edit{{"zk/clock.go", "time.Now().Add(slept())", "time.Now().Round(0).Add(slept())"}},
			pkg:   "zk", tests: []string{"TestDeadlinesAreByAClockThatNobodySets"},
		},
		{
			number: 11, bug: "deadlines are by a clock that stops while the machine sleeps", where: "golang/go #24595, kazoo #241",
			edits: []edit{{"zk/clock.go", "time.Now().Add(slept())", "time.Now()"}},
			pkg:   "zk", tests: []string{"TestSuspendCountsAgainstTheSession"},
		},
		{
			number: 12, simulated: true, bug: "the token is the sequence number", where: "curator #1056",
			edits: []edit{{"internal/queue/place.go", "p.czxid, p.Token, p.doubt = stat.Czxid, stat.Czxid, false",
				"c, _ := p.Queue.Grammar.Parse(p.Name())\n\tp.czxid, p.Token, p.doubt = stat.Czxid, int64(c.Seq), false"}},
			tests: []string{"TestTokensGrowThoughTheNumbersStartAgain"},
		},
		{
			number: 13, bug: "sequence numbers compare as integers, also where they wrap", where: "kazoo #730, ZOOKEEPER-4372, go-zookeeper PR #65",
			edits: []edit{{"internal/queue/names/contender.go", "return a-b < 0", "return a < b"}},
			pkg:   "internal/queue/names", tests: []string{"TestMutexWaitsForTheContenderRightAhead", "FuzzQueueIsALine"},
		},
		{
			number: 14, simulated: true, bug: "a reader ignores the writers ahead", where: "–",
			edits: []edit{{"internal/queue/names/contender.go", "!(c.Shared && other.Shared)", "!c.Shared"}},
			tests: []string{"TestReadersShareAndWritersExclude", "TestNobodyOvertakesAWaitingWriter"},
		},
		{
			number: 15, simulated: true, bug: "permits of those who died count for ever", where: "CURATOR-595, CURATOR-462",
			edits: []edit{{"turnstile.go", "mode = zk.EphemeralSequential", "mode = zk.PersistentSequential"}},
			tests: []string{"TestEndOfASessionEndsHoldsAndNoWaits"},
		},
		{
			number: 16, simulated: true, bug: "the first release of a lock that was taken twice frees it", where: "kazoo #315",
			edits: []edit{{"internal/tenure/tenure.go", "\tcase len(t.holds) > 0:\n\t\treturn Shared, t.loss\n", ""}},
			tests: []string{"TestReentrantLockIsFreeAfterTheLastUnlock"},
		},
		{
			number: 17, bug: "the server answers before the sync", where: "NATS 2.12 (Jepsen, 2025)",
			edits: []edit{
				{"zkserver/commit.go", "\tbegan := time.Now()\n", "\tbegan := time.Now()\n\ts.release(b, own)\n"},
				{"zkserver/commit.go", "\ts.release(b, own)\n\ts.committingSince.Store(0)", "\ts.committingSince.Store(0)"},
			},
			pkg: "zkserver", tests: []string{"TestNothingIsSaidBeforeItIsOnDisk"},
		},
		{
			number: 18, bug: "the names of new files are not synced", where: "Pebble, where names are not kept in order",
			edits: []edit{{"zkserver/internal/store/journal.go", "return fs.SyncDir()", "return nil"}},
			pkg:   "zkserver/internal/store", tests: []string{"TestPowerFailsBehindEveryChange"},
		},
		{
			number: 19, bug: "a session and its nodes end in two transactions", where: "ZOOKEEPER-3144",
			edits: []edit{{"zkserver/ending.go", "\tmore := o.tree.EndSession(",
				"\tfor _, path := range o.tree.Ephemerals(sess.id) {\n\t\to.tree.Delete(s.nextTxn(sess.id), path, -1)\n\t}\n\tmore := o.tree.EndSession("}},
			pkg: "zkserver", tests: []string{"TestExpiryIsOneTransaction"},
		},
		{
			number: 20, bug: "watches fire before the commit", where: "–",
			edits: []edit{{"zkserver/answer.go", "\t\tc.owned.staged = zkproto.EndFrame(b, start)\n\t\ts.owner.notifications++",
				"\t\tb = zkproto.EndFrame(b, start)\n\t\tc.owned.staged = b[:start]\n\t\tc.send(b[start:], 0, false)\n\t\tc.signal()\n\t\ts.owner.notifications++"}},
			pkg: "zkserver", tests: []string{"TestNothingIsSaidBeforeItIsOnDisk"},
		},
		{
			number: 21, bug: "watches are restored without what the client has seen", where: "go-zookeeper #83, samuel #83, kazoo #151",
			edits: []edit{{"zk/session.go", `range s.watches.registrations(s.watchZxid, "")`, `range s.watches.registrations(1<<62, "")`}},
			pkg:   "zk", tests: []string{"TestWatchesTellWhatWasMissed"},
		},
		{
			number: 22, bug: "a MultiLock that fails gives back the last of its locks only", where: "Curator's InterProcessMultiLock",
			edits: []edit{{"multilock.go", "slices.Backward(held) {\n\t\t\t\th.letGo(ctx)", "slices.Backward(held[max(0, len(held)-1):]) {\n\t\t\t\th.letGo(ctx)"}},
			tests: []string{"TestMultiLockHasOneDeadlineAndRollsBack"},
		},
		{
			number: 23, bug: "what the command has started outlives a supervisor that was killed", where: "etcd PR #10117",
			edits: []edit{{"internal/supervise/watchdog_linux.go", "\tdefer lose()\n", ""}},
			pkg:   "internal/supervise", tests: []string{"TestJobDiesWithItsSupervisor"}, args: atOnce,
		},
		{
			number: 24, bug: "a sync that failed is tried again", where: "five databases (Rebello et al., 2020)",
			edits: []edit{{"zkserver/internal/store/journal.go", "\tif err := j.file.Sync(); err != nil {\n",
				"\terr := j.file.Sync()\n\tif err != nil {\n\t\terr = j.file.Sync()\n\t}\n\tif err != nil {\n"}},
			pkg: "zkserver/internal/store", tests: []string{"TestFailedCallsLoseNothing"},
		},
	}
}
