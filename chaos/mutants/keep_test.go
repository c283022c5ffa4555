package mutants

// ofKeep are those of a lock that stays with its client after Unlock (WithKeep).
func ofKeep() []mutant {
	return []mutant{
		{
			number: 540, bug: "a kept lock stays when somebody else joins the queue", where: "–",
			edits: []edit{{"internal/tenure/keep.go", "\t}\n\tt.mu.Unlock()\n\tt.giveBack()\n}", "\t}\n\tt.mu.Unlock()\n}"}},
			tests: []string{"TestWhoeverJoinsGetsAKeptLock"},
		},
		{
			number: 541, bug: "a kept lock is taken though the session is not proven", where: "–",
			edits: []edit{{"internal/tenure/keep.go", "case k.wanted.Load() || t.revoked || !t.proven():", "case k.wanted.Load() || t.revoked:"}},
			tests: []string{"TestKeptLockIsNotTakenWithoutAProof"},
		},
		{
			number: 542, bug: "a lock is kept though somebody else waits for it", where: "–",
			edits: []edit{
				{"internal/tenure/keep.go", " || k.wanted.Load() || !t.proven() {", " || !t.proven() {"},
				{"internal/tenure/keep.go", "case k.wanted.Load() || t.revoked || !t.proven():", "case t.revoked || !t.proven():"},
			},
			tests: []string{"TestHeldLockIsNotKeptFromWaiters", "TestKeptLockIsHandedOn"},
		},
		{
			number: 543, bug: "the mark of a kept lock stays when the lock is taken again", where: "–",
			edits: []edit{{"internal/tenure/keep.go", "\t\tt.mark(false)\n", ""}},
			tests: []string{"TestMarkFollowsTheHold", "TestTryLockOfALockThatIsKept"},
		},
		{
			number: 544, bug: "TryLock takes a kept lock of another client for a held one", where: "–",
			edits: []edit{{"internal/queue/kept.go", "if err == nil && ReadNote(data).Kept {", "if err == nil && len(data) < 0 {"}},
			tests: []string{"TestWhoeverJoinsGetsAKeptLock"},
		},
		{
			number: 545, bug: "TryLock waits without a bound for a client that does not give its kept lock up", where: "–",
			edits: []edit{{"internal/queue/kept.go", "case <-timer.C:", "case <-(chan time.Time)(nil):"}},
			tests: []string{"TestTryLockOfALockThatIsKept"},
		},
		{
			number: 546, bug: "a client keeps any number of locks", where: "–",
			edits: []edit{{"internal/tenure/keep.go", "if idle.all.Len() > maxKept {", "if false {"}},
			tests: []string{"TestKeptLocksAreBounded"},
		},
		{
			number: 547, bug: "a kept lock stays when somebody asks for it with Revoke", where: "–",
			edits: []edit{{"internal/tenure/tenure.go", "\t\tgo t.giveBack()\n", ""}},
			tests: []string{"TestKeptLockIsLost"},
		},
		{
			number: 548, bug: "the mark of a kept lock replaces a request to release it", where: "–",
			edits: []edit{{"internal/tenure/keep_mark.go", "p.Path(), next, k.version)", "p.Path(), next, zk.AnyVersion)"}},
			tests: []string{"TestRevokeBesideTheMark"},
		},
		{
			number: 549, bug: "a lock is kept for ever", where: "–",
			edits: []edit{{"internal/tenure/keep.go", "\tk.since = time.Now()\n\tk.timer.Reset(t.Keep)\n", "\tk.since = time.Now()\n\tk.timer.Stop()\n"}},
			tests: []string{"TestKeptLockNeedsNoRequest"},
		},
		{
			number: 550, bug: "a kept lock whose node is gone is taken", where: "–",
			edits: []edit{
				{"internal/tenure/keep.go", "\tcase t.isOver():\n\t\treturn false, k.gone\n\tcase !k.listed:", "\tcase !k.listed:"},
				{"internal/tenure/tenure.go", "\tt.loss = loss\n\tt.leaveLine()\n\tif t.keep != nil && len(t.holds) == 0 {\n\t\tt.end()\n\t\tt.release()\n\t\tgo t.clear()\n\t}\n", "\tt.loss = loss\n"},
			},
			tests: []string{"TestKeptLockIsLost"},
		},
		{
			number: 551, bug: "the client takes its own kept lock for another's while the node is removed", where: "ours, until the test found it",
			edits: []edit{{"internal/tenure/keep.go", "return nil, nil, !waited", "return nil, nil, false"}},
			tests: []string{"TestLockAtTheEndOfTheTime"}, args: []string{"-count=200"},
		},
		{
			number: 552, bug: "a kept lock is handed out before the client knows whether somebody else waits", where: "–",
			edits: []edit{{"internal/tenure/keep.go", "\tcase !k.listed:\n\t\treturn false, k.known\n", ""}},
			tests: []string{"TestLockWaitsUntilItIsKnownWhoElseWaits"},
		},
		{
			number: 553, bug: "whoever joins takes a lock away that was kept, also while it is held", where: "–",
			edits: []edit{
				{"internal/tenure/keep.go", "\tif len(t.holds) > 0 || t.isOver() {", "\tif t.isOver() {"},
				{"internal/tenure/tenure.go", "\tif t.keep != nil {\n\t\tclose(t.keep.gone)\n\t}\n", ""},
			},
			tests: []string{"TestKeptLocksExclude"}, simulated: true,
		},
		{
			number: 554, bug: "Release keeps a lock without a mark", where: "–",
			edits: []edit{{"internal/tenure/tenure.go", "\t\t\tf, err = t.settle()\n", "\t\t\terr = nil\n"}},
			tests: []string{"TestEndingsOfALockThatIsKept"},
		},
		{
			number: 555, bug: "a session that is a second old does not count as proven", where: "–",
			edits: []edit{{"internal/tenure/tenure.go", "time.Now().Before(session.Deadline())", "time.Now().Before(session.Deadline()) && time.Since(t.began) < time.Second"}},
			tests: []string{"TestKeptLockOutlivesAConnection"},
		},
		{
			number: 556, bug: "Unlock waits for the Unlock of the next Hold, if that is lost", where: "ours, until a reader found it",
			edits: []edit{{"internal/tenure/keep.go", "over := t.isOver() && len(t.holds) == 0", "over := t.isOver()"}},
			tests: []string{"TestUnlockDoesNotWaitForTheNextHold"},
		},
		{
			number: 557, bug: "a caller that has given up takes a kept lock", where: "ours, until a reader found it",
			edits: []edit{{"internal/tenure/keep.go", "\t\tif ctx.Err() != nil { // a caller that has given up", "\t\tif false { // a caller that has given up"}},
			tests: []string{"TestTryLockOfACallerThatHasGivenUpTakesNoKeptLock"},
		},
		{
			number: 558, bug: "TryLock behind a node that it may not read is a refusal", where: "ours, until a reader found it",
			edits: []edit{{"internal/queue/kept.go", "\tcase errors.Is(err, zk.ErrNoAuth):\n\t\treturn ErrLocked\n", ""}},
			tests: []string{"TestTryLockBehindANodeThatItMayNotRead"},
		},
	}
}
