package mutants

// ofMendedClient are those of waits without a bound, and of servers that lack something.
func ofMendedClient() []mutant {
	return []mutant{
		{
			number: 940, bug: "two refusals of a login end the client, though another member accepts", where: "–",
			edits: []edit{{"zk/auth.go", "refusalsOfOne*c.rotation.addresses()", "refusalsOfOne"}},
			pkg:   "zk", tests: []string{"TestOneMemberThatAcceptsTheLoginIsEnough"},
		},
		{
			number: 941, bug: "a refused login ends the session of a holder before its deadline", where: "–",
			edits: []edit{{"zk/client.go", "c.refusedByAll(1) && req.SessionID == 0 {", "c.refusedByAll(1) {"}},
			pkg:   "zk", tests: []string{"TestRefusedLoginLeavesAHolderItsTime"},
		},
		{
			number: 942, bug: "a request that breaks every connection is sent for ever", where: "–",
			edits: []edit{{"zk/unknown.go", "\t\treturn lost[:1], fmt", "\t\tif d.times < 1000 {\n\t\t\treturn nil, nil\n\t\t}\n\t\treturn lost[:1], fmt"}},
			pkg:   "zk", tests: []string{"TestARequestThatTheServersDoNotKnowEnds"},
		},
		{
			number: 943, bug: "a persistent watch is blind on a server that does not know it", where: "–",
			edits: []edit{{"zk/unknown.go", "\t\ts.watches.persistent.end(ErrUnimplemented)\n", ""}},
			pkg:   "zk", tests: []string{"TestPersistentWatchEndsWhereTheServerHasNone"},
		},
		{
			number: 944, bug: "a server without containers makes every Lock fail", where: "–",
			edits: []edit{{"internal/queue/join.go", "case mode == zk.Container && (", "case mode == zk.Persistent && ("}},
			tests: []string{"TestLocksOnAServerWithoutContainers"},
		},
		{
			number: 945, bug: "watch tells that a waiter behind a hidden place has acquired a new lock", where: "–",
			edits: []edit{{"internal/lockwatch/watch.go", "\t\tgot.hidden = got.stat.Cversion - inside[paths[i]]\n", ""}},
			pkg:   "internal/lockwatch", tests: []string{"TestAWaiterBehindAHiddenPlaceHasNotAcquired"},
		},
		{
			number: 946, bug: "a waiter rests on one event for ever", where: "–",
			edits: []edit{{"internal/queue/await.go", "alarms.In(p.Session).after(LookAgain())", "alarms.In(p.Session).after(10000 * LookAgain())"}},
			tests: []string{"TestWaitersBehindHiddenNodes"},
		},
		{
			number: 947, bug: "a waiter whose own node was hidden and removed acquires the lock", where: "–",
			edits: []edit{{"internal/queue/await.go", "\t\tnodes = append(nodes, p.Path())\n", ""}},
			tests: []string{"TestWaiterWhoseOwnNodeIsHiddenAndRemoved"},
		},
		{
			number: 948, bug: "a holder whose node was hidden and removed is never told", where: "–",
			edits: []edit{{"internal/tenure/tenure.go", "\t\tagain.Reset(queue.LookAgain())\n\t\tfor changed", "\t\tagain.Stop()\n\t\tfor changed"}},
			tests: []string{"TestHolderOfAHiddenNodeIsTold"},
		},
		{
			number: 949, bug: "the outage that a command survives is said to be longer than it is", where: "–",
			edits: []edit{{"internal/cli/job/outage.go", "return 3 * max(", "return max("}},
			pkg:   "internal/cli/job", tests: []string{"TestCommandsSurviveTheseOutages", "TestDocumentHasTheTableOfOutages"},
		},
		{
			number: 950, bug: "a server that throttles the request that restores the watches is said not to know what comes behind it", where: "ours, during issue 36",
			edits: []edit{{"zk/session.go", "demand == nil && !told {", "demand == nil && (told || !told) {"}},
			pkg:   "zk", tests: []string{"TestARequestIsNotGivenUpInAnOutage"},
		},
		{
			number: 951, bug: "a client keeps a lock for ever if the event of the next waiter is lost", where: "–",
			edits: []edit{{"internal/tenure/keep.go", "queue.AwaitEvent(t.ctx, watch.C, queue.LookAgain())", "queue.AwaitEvent(t.ctx, watch.C, 10000*queue.LookAgain())"}},
			tests: []string{"TestKeeperOfAHiddenQueueLooksAgain"},
		},
		{
			number: 952, bug: "a writer waits for ever for an earlier reader of its own if the event is lost", where: "–",
			edits: []edit{{"reentry.go", "queue.AwaitEvent(ctx, watch.C, queue.LookAgain())", "queue.AwaitEvent(ctx, watch.C, 10000*queue.LookAgain())"}},
			tests: []string{"TestReadSideWhileAHiddenReaderLeaves"},
		},
		{
			number: 953, bug: "the page keeps a node that was hidden and removed", where: "–",
			edits: []edit{{"internal/lockwatch/mirror.go", "again := time.NewTimer(queue.LookAgain())", "again := time.NewTimer(10000 * queue.LookAgain())"}},
			pkg:   "internal/lockwatch", tests: []string{"TestAMirrorForgetsAHiddenNode"},
		},
		{
			number: 954, bug: "a lock that the backend for Terraform takes for a moment never expires", where: "–",
			edits: []edit{{"terraform/lock.go", "b.acquire(ctx, ws, info, true, briefly)", "b.acquire(ctx, ws, info, true, 0)"}},
			pkg:   "terraform", tests: []string{"TestKilledInTheMomentOfALock"},
		},
		{
			number: 955, bug: "a user who is removed while the form is on its way acts on the page", where: "–",
			edits: []edit{{"ui/act.go", "if loggedOut(r) {", "if false {"}},
			pkg:   "ui", tests: []string{"TestUserIsRemovedDuringTheForm"},
		},
	}
}
