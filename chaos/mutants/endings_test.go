package mutants

// ofTheEndings are those of the ways to end a Hold, and of observers.
func ofTheEndings() []mutant {
	return []mutant{
		{
			number: 395, bug: "the Context of a Hold goes on after its end", where: "made up",
			edits: []edit{{"hold.go", "\th.unlocked = true\n\th.cancel(ErrNotHeld)\n\treturn h.loss, true\n", "\th.unlocked = true\n\treturn h.loss, true\n"}},
			tests: []string{"TestCommitAndUnlockIsOneTransaction", "TestReleaseGoesAheadOfLaterRequests"},
		},
		{
			number: 396, bug: "the lock stays held if the server refuses the last transaction", where: "made up",
			edits: []edit{{"hold.go", "\t\tfor _, t := range slices.Backward(over) {\n\t\t\tt.RemoveNodes()\n\t\t}\n", ""}},
			tests: []string{"TestCommitAndUnlockReleasesWhateverComesOfIt"},
		},
		{
			number: 397, bug: "the last transaction of one Hold removes the node of the Holds that joined it", where: "made up",
			edits: []edit{{"hold.go", "\t\t\tif !last {\n", "\t\t\tif false {\n"}},
			tests: []string{"TestCommitAndUnlockLeavesTheNodeToTheOthers"},
		},
		{
			number: 398, bug: "the lock is handed on in memory before the last transaction", where: "made up",
			edits: []edit{{"hold.go", "if !t.EndsAlone() || t.Client", "if t.Client"}},
			tests: []string{"TestCommitAndUnlockBeforeTheLocalHandoff"},
		},
		{
			number: 399, bug: "the last transaction removes whatever node has the name", where: "zk-ruby #34",
			edits: []edit{{"hold.go", " || !t.Places[0].Unique {\n", " {\n"}},
			tests: []string{"TestNoEndOfAHoldHitsTheNodeOfASuccessor"},
		},
		{
			number: 400, bug: "Release removes whatever node has the name", where: "zk-ruby #34",
			edits: []edit{{"internal/queue/remove.go", "\tif !p.Unique {\n\t\terr := errPanic\n", "\tif false {\n\t\terr := errPanic\n"}},
			tests: []string{"TestNoEndOfAHoldHitsTheNodeOfASuccessor"},
		},
		{
			number: 401, bug: "Release waits for the server", where: "made up",
			edits: []edit{{"hold.go", "\tgo func() {\n\t\tfor _, r := range removals {\n", "\tfunc() {\n\t\tfor _, r := range removals {\n"}},
			tests: []string{"TestReleaseDoesNotWaitForTheServer"},
		},
		{
			number: 402, bug: "the removal overtakes nothing: it is queued some time after Release", where: "made up",
			edits: []edit{{"internal/queue/remove.go", "\tif p.path == \"\" {\n\t\treturn p.Remove\n", "\tif p.path != \"\" {\n\t\treturn p.Remove\n"}},
			tests: []string{"TestReleaseGoesAheadOfLaterRequests"},
		},
		{
			number: 403, bug: "a removal whose request or answer is lost ends there", where: "CURATOR-486",
			edits: []edit{{"internal/queue/remove.go", "\t\tcase zk.MayHaveHappened(err):\n\t\t\treturn p.remove(true)\n", "\t\tcase zk.MayHaveHappened(err):\n\t\t\treturn nil\n"}},
			tests: []string{"TestReleaseOutlastsLostConnections"},
		},
		{
			number: 404, bug: "only Unlock leaves a watermark", where: "made up",
			edits: []edit{{"internal/queue/watermark.go", "func (p *Place) WatermarkOp() []zk.Op {\n\tif p.watermark == nil {", "func (p *Place) WatermarkOp() []zk.Op {\n\tif p.czxid != 0 {"}},
			tests: []string{"TestReleaseOfALongQueueLeavesAWatermark"},
		},
		{
			number: 405, bug: "an observer is told of a loss as often as it is noticed", where: "made up",
			edits: []edit{{"observer.go", "\tif s == nil || s.lost {\n", "\tif s == nil {\n"}, {"internal/tenure/tenure.go", "\tif t.isOver() {\n\t\tt.mu.Unlock()\n\t\treturn\n\t}\n\tloss := ", "\tif t.ctx.Err() != nil {\n\t\tt.mu.Unlock()\n\t\treturn\n\t}\n\tloss := "}},
			tests: []string{"TestObserverIsToldTheStoryOfALock"},
		},
		{
			number: 406, bug: "a loss before the report of the acquisition is not reported", where: "made up",
			edits: []edit{{"observer.go", "\tif loss != nil { // before", "\tif loss == nil && h == nil { // before"}},
			tests: []string{"TestLossDuringTheReportIsReported"},
		},
		{
			number: 407, bug: "the context that an observer returns is dropped", where: "made up",
			edits: []edit{{"lock.go", "\t\tctx, seen = l.queued(ctx, op, permits)\n", "\t\t_, seen = l.queued(ctx, op, permits)\n"}},
			tests: []string{"TestObserverIsToldTheStoryOfALock"},
		},
		{
			number: 408, bug: "the locks of a MultiLock are not released, for observers", where: "made up",
			edits: []edit{{"multilock.go", "\tall.parts = held\n", ""}},
			tests: []string{"TestObserverIsToldTheStoryOfALock"},
		},
		{
			number: 409, bug: "a trace is told of requests without the caller's context", where: "go-zookeeper",
			edits: []edit{{"zk/trace.go", "t.RequestDone(ctx, r.op", "t.RequestDone(context.Background(), r.op"}},
			pkg:   "zk", tests: []string{"TestRequestDoneHasTheCallersContext"},
		},
		{
			number: 533, bug: "a MultiLock waits for a caller that waits for one of its context's Holds", where: "ours, until a reader found it",
			edits: []edit{{"multilock.go", "\t\tif p.deadlocks(ctx, wait) {\n", "\t\tif p.tree && p.deadlocks(ctx, wait) {\n"}},
			tests: []string{"TestMultiLockWaitsForNobodyThatWaitsForItsHold"},
		},
		{
			number: 534, bug: "a MultiLock looks for Holds of queues only", where: "made up",
			edits: []edit{{"multilock.go", "\tcase queue.Node:\n\t\treturn len(p.lock.heldNode(ctx)) > 0 && !p.lock.reentrant\n\tcase queue.Semaphore, queue.Slots:\n\t\treturn wait && p.lock.heldPermit(ctx)\n", "\tcase queue.Node, queue.Semaphore, queue.Slots:\n\t\treturn false\n"}},
			tests: []string{"TestMultiLockWaitsForNobodyThatWaitsForItsHold"},
		},
		{
			number: 535, bug: "a Reentrant NodeLock joins a tenure of another lock at its path", where: "ours, until a reader found it",
			edits: []edit{{"reentry.go", "return t.Kind != queue.Node })", "return t.Lock == nil })"}},
			tests: []string{"TestNodeLockIsNotAnotherLockOfItsPath"},
		},
	}
}
