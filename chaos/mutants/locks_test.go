package mutants

// ofTheNames are those of locks whose names, nodes or requests meet others'.
func ofTheNames() []mutant {
	return []mutant{
		{
			number: 100, bug: "a waiter that has given up is put back into its line", where: "holdfast at 3a97b7e",
			edits: []edit{{"internal/tenure/line.go", "\tif w.ctx.Err() != nil {\n\t\tw.turn <- turn{err: context.Cause(w.ctx)}\n\t\treturn\n\t}\n", ""}},
			tests: []string{"TestWaiterThatGivesUpWhileItsTurnFailsIsNotPutBack"},
		},
		{
			number: 101, bug: "every layout believes the marks in its directory, whoever left them", where: "holdfast at 3a97b7e",
			edits: []edit{{"internal/queue/names/grammar.go", "\tg := translate(l)\n", "\tg := translate(l)\n\tg.Watermarks = true\n"}},
			tests: []string{"TestMarkOfAnotherQueueInTheDirectoryIsNotBelieved"},
		},
		{
			number: 102, bug: "a layout is told from another by what it is called", where: "holdfast at 3a97b7e",
			edits: []edit{{"internal/queue/names/grammar.go", `g.Queue = fmt.Sprintf("%q %q", g.exclusive, g.shared)`, "g.Queue = l.Name"}},
			tests: []string{"TestLayoutsWithoutANameAreTwoLocks", "TestLayoutsOfTheSameFormsAreOneLock"},
		},
		{
			number: 103, bug: "a MultiLock takes equal paths of two clients in the order in which they were given", where: "holdfast at 3a97b7e",
			edits: []edit{{"multilock.go", "\tcase p.compare(o) == 0:\n", "\tcase p.compare(o) == 0 && p.lock.Client == o.lock.Client:\n"}},
			tests: []string{"TestMultiLockRefusesEqualPathsOfTwoClients"},
		},
		{
			number: 104, bug: "a MultiLock orders by paths that mean something else under each chroot", where: "holdfast at 3a97b7e",
			edits: []edit{{"multilock.go", "return p.lock.Client.Chroot() + p.lock.Path", "return p.lock.Path"}},
			tests: []string{"TestMultiLocksOfDifferentChrootsDoNotDeadlock"},
		},
		{
			number: 105, bug: "a transaction is fenced by the path alone, though several locks have it", where: "holdfast at 3a97b7e",
			edits: []edit{{"fence/sql.go", "if strings.Contains(t.Layout, \":\") {", "if strings.Contains(t.Layout, \"#\") {"}},
			pkg:   "fence", tests: []string{"TestTransactionIsFencedWithEveryToken"},
		},
		{
			number: 106, bug: "what a server that throttles has refused fails", where: "holdfast at 3a97b7e",
			edits: []edit{{"zk/retry.go", "return RetryIf(ctx, SafeToRetry, send)", "return RetryIf(ctx, func(err error) bool { return errors.Is(err, ErrConnectionLoss) && SafeToRetry(err) }, send)"}},
			tests: []string{"TestThrottledServerMakesNothingFail", "TestTryLockWaitsForAThrottledServer", "TestHoldIsToldThoughTheServerWasThrottling", "TestObserverOutlastsAThrottledServer"},
		},
		{
			number: 107, bug: "requests are sent again without a pause", where: "holdfast at 3a97b7e",
			edits: []edit{{"zk/retry.go", "time.NewTimer(pause/2 + rand.N(pause/2))", "time.NewTimer(0 * rand.N(pause/2))"}},
			tests: []string{"TestThrottledServerMakesNothingFail"},
		},
		{
			number: 108, bug: "Revoke writes over whatever is in the node", where: "Curator's Revoker, holdfast at 3a97b7e",
			edits: []edit{{"internal/queue/note.go", "\tif !ok {\n\t\treturn []byte(revokeRequest), nil", "\tif ok || !ok {\n\t\treturn []byte(revokeRequest), nil"}},
			tests: []string{"TestNodeThatWasRevokedIsFoundAgain"},
		},
		{
			number: 109, bug: "a holder leaves a request in the place of its data", where: "holdfast at 3a97b7e",
			edits: []edit{{"internal/tenure/tenure.go", "\t\t\trequests.take(stat.Version)\n", ""}},
			tests: []string{"TestRevokeKeepsTheDataOfTheNode", "TestBreakFindsADowngradedReaderThatWasRevoked"},
		},
		{
			number: 110, bug: "an observer of an election takes a request for the leader's value", where: "holdfast at 3a97b7e",
			edits: []edit{{"election.go", "\tcase queue.IsRequest(data):\n", "\tcase false:\n"}},
			tests: []string{"TestObserversSeeNoRequestForAValue"},
		},
		{
			number: 111, bug: "a value that is proclaimed takes the place of a request that nobody has seen", where: "holdfast at 3a97b7e",
			edits: []edit{{"internal/tenure/rewrite.go", "\t\tcase queue.ReadNote(present).Revoke:\n\t\t\tt.revoke() //", "\t\tcase queue.ReadNote(present).Revoke:\n\t\t\t_ = t //"}},
			tests: []string{"TestProclaimAndRevokeTogetherLoseNothing"},
		},
		{
			number: 112, bug: "a node is ours only if its data are as they were when it was made", where: "holdfast at 3a97b7e",
			edits: []edit{{"internal/queue/find.go", "(p.Unique || ReadNote(r.Data).ID == p.ID)", "(p.Unique || string(r.Data) == string(p.Data))"}},
			tests: []string{"TestNodeThatWasRevokedIsFoundAgain"},
		},
		{
			number: 113, bug: "the token zero is everybody's whose note has none", where: "holdfast at 3a97b7e",
			edits: []edit{{"revoke.go", "if token <= 0 {", "if token < 0 {"}},
			tests: []string{"TestNobodyHasTheTokenZero"},
		},
		{
			number: 114, bug: "a lock takes no notice of other kinds and layouts under its name", where: "holdfast at 3a97b7e, Curator, kazoo",
			edits: []edit{{"internal/queue/listing.go", "\tif a.Others > 0 {\n", "\tif a.Others < 0 {\n"}},
			tests: []string{"TestKindsUnderOneNameExcludeOrRefuse", "TestKindsThatComeTogetherSeeEachOther", "TestErrKindSaysWhatIsWrong"},
		},
		{
			number: 115, bug: "a semaphore takes no notice of a queue under its name", where: "holdfast at 3a97b7e",
			edits: []edit{{"turnstile.go", "err = s.lock.CheckKind(ctx, beside)", "err = s.lock.CheckKind(ctx, beside[:0])"}},
			tests: []string{"TestKindsThatComeTogetherSeeEachOther", "TestErrKindSaysWhatIsWrong"},
		},
		{
			number: 116, bug: "a semaphore with its turnstile elsewhere looks only before it takes a permit", where: "–",
			edits: []edit{{"turnstile.go", "\tif s.lock.Grammar.Semaphore.Leases == \"\" {\n\t\tlisted", "\tif false {\n\t\tlisted"}},
			tests: []string{"TestKindsThatComeTogetherSeeEachOther"},
		},
		{
			number: 117, bug: "permits are looked for before the turn", where: "–",
			edits: []edit{{"internal/queue/kind.go", "[]string{s.Turnstile, s.Leases}", "[]string{s.Leases, s.Turnstile}"}},
			tests: []string{"TestTurnIsLookedForBeforePermits"},
		},
		{
			number: 118, bug: "locks of one directory that have names take each other for strangers", where: "–",
			edits: []edit{{"internal/queue/names/layout.go", "\tif g.Beside(name) {\n", "\tif g.Beside(name) && name == \"\" {\n"}},
			tests: []string{"TestWhatIsNoOtherKindIsNoObstacle"},
		},
		{
			number: 119, bug: "a waiter gives up because somebody has tried another kind of lock", where: "–",
			edits: []edit{{"internal/queue/listing.go", "\tif err != nil || p.onlyKind {\n", "\tif err != nil {\n"}},
			tests: []string{"TestWaitersAreNotDisturbedByOtherKinds"},
		},
		{
			number: 120, bug: "a crowd's list is not looked through for other kinds", where: "–",
			edits: []edit{{"internal/queue/shared_list.go", "if l.Others > 0 {", "if l.Others < 0 {"}},
			tests: []string{"TestWaitersAreNotDisturbedByOtherKinds"},
		},
		{
			number: 121, bug: "a lock is held since its holder has joined the queue", where: "holdfast at 3a97b7e",
			edits: []edit{{"internal/tenure/rewrite.go", "n.Since = p.At(t.began)", "n.Since = present[i].Stat.Ctime"}},
			tests: []string{"TestListTellsSinceWhenALockIsHeld"},
		},
		{
			number: 881, bug: "nobody learns since when a lock is held if its server was slow to create the node", where: "ours until 27 November",
			edits: []edit{{"internal/queue/note.go", "stat.Mtime+slowCreate.Milliseconds()", "stat.Mtime+1000"}},
			tests: []string{"TestListTellsSinceWhenALockIsHeldBySlowServers"},
		},
		{
			number: 122, bug: "every tenure costs a write that says since when it lasts", where: "–",
			edits: []edit{{"internal/tenure/rewrite.go", "const heldAfter = time.Second", "const heldAfter = 0 * time.Second"}},
			tests: []string{"TestListTellsSinceWhenALockIsHeld", "TestHeldSinceWakesNoHerd"},
		},
		{
			number: 123, bug: "a holder that says since when it holds writes over a request to let go", where: "–",
			edits: []edit{{"internal/tenure/rewrite.go", "zk.SetOp(p.Path(), data, present[i].Stat.Version)", "zk.SetOp(p.Path(), data, zk.AnyVersion)"}},
			tests: []string{"TestHeldSinceUnderFaults"},
		},
		{
			number: 124, bug: "a holder adds to the data that its program has chosen", where: "–",
			edits: []edit{{"internal/tenure/rewrite.go", "return !t.OwnData && ", "return "}},
			tests: []string{"TestChosenDataSayNothingElse"},
		},
		{
			number: 125, bug: "the time until a lost answer is cleared up counts as held", where: "–",
			edits: []edit{{"internal/queue/place.go", "return p.ctime + t.Sub(p.asked).Milliseconds()", "return p.ctime + t.Sub(p.Joined()).Milliseconds()"}},
			tests: []string{"TestHeldSinceCountsNoTimeOfDoubt"},
		},
		{
			number: 126, bug: "all the readers behind a writer are woken by a change of its data", where: "–",
			edits: []edit{{"internal/queue/await.go", "\t\tnearOp = zk.ChildrenWOp\n", "\t\tnearOp = zk.GetWOp\n"}},
			tests: []string{"TestChangesOfTheDataWakeNoCrowd"},
		},
		{
			number: 175, bug: "a layout without readers takes a foreign writer for one that never steps down", where: "holdfast until e50c4e0",
			edits: []edit{{"internal/queue/names/layout.go", "return !g.Mutex.makes(form) || g.Write.makes(form) ||\n", "return len(g.shared) > 0 && !g.Mutex.makes(form) || g.Write.makes(form) || len(g.shared) > 0 &&\n"}},
			tests: []string{"TestMutexOfALayoutWithoutReadersWaitsForADowngradedWriter"},
		},
		{
			number: 176, bug: "permits are counted at a server that is behind the event that brought the turn", where: "holdfast until e50c4e0",
			edits: []edit{{"turnstile.go", "before := turn.first().WaitedFor()", `before := ""`}},
			tests: []string{"TestPermitsAreCountedOnlyWhereTheTurnBeforeIsOver"},
		},
		{
			number: 178, bug: "a name that fits another layout makes a named lock a stranger", where: "holdfast until e50c4e0",
			edits: []edit{{"internal/queue/names/layout.go", "return ours && named", `return ours && named && !strings.HasPrefix(name, "lock-")`}},
			tests: []string{"TestWhatIsNoOtherKindIsNoObstacle"},
		},
		{
			number: 179, bug: "persistent nodes are taken for places of other locks", where: "holdfast until e50c4e0",
			edits: []edit{{"internal/queue/kind.go", "\t\t\tcase isPlace(strings.TrimPrefix(some[i].Node, q.Path+\"/\"), r.Stat):\n", "\t\t\tdefault:\n"}},
			tests: []string{"TestPersistentNodeIsNoStranger"},
		},
		{
			number: 180, bug: "a stranger that has gone is taken for the only one", where: "–",
			edits: []edit{{"internal/queue/kind.go", "\t\t\t\tchanged = true\n", "\t\t\t\tchanged = false\n"}},
			tests: []string{"TestStrangerThatStepsDownIsSeen"},
		},
		{
			number: 181, bug: "Break repeats a delete whose answer was lost, whoever has the name now", where: "holdfast until e50c4e0",
			edits: []edit{{"revoke.go", "return stat.Version, err == nil && hasToken(data, stat, token), err", "return stat.Version, err == nil && (hasToken(data, stat, token) || true), err"}},
			tests: []string{"TestBreakWithALostAnswerSparesTheSuccessor"},
		},
		{
			number: 182, bug: "a holder is not told of a loss while it writes its data back", where: "holdfast until e50c4e0",
			edits: []edit{{"internal/tenure/tenure.go", "requests.take(stat.Version)", "t.restore(p, stat.Version)"}},
			tests: []string{"TestHolderThatRestoresItsDataIsToldOfALoss"},
		},
		{
			number: 183, bug: "a MultiLock takes layouts that see each other through two clients", where: "holdfast until e50c4e0",
			edits: []edit{{"multilock.go", "\tcase p.lock.Grammar.Sees(", "\tcase p.lock.Client == o.lock.Client && p.lock.Grammar.Sees("}},
			tests: []string{"TestMultiLockRefusesLayoutsThatWaitForEachOther"},
		},
		{
			number: 184, bug: "a waiter leaves its watch on another node of its name", where: "holdfast until e50c4e0",
			edits: []edit{{"internal/queue/await.go", "\t\t\town.Watch.Stop()\n", ""}},
			pkg:   "internal/queue", tests: []string{"TestWatchOnAnotherNodeOfOurNameIsStopped"},
		},
	}
}
