package mutants

// ofSights are those of the commands that show locks: what they say of nodes that are odd, hidden, forged or old.
func ofSights() []mutant {
	return []mutant{
		{
			number: 730, bug: "watch takes a permit of another semaphore for that of a turn that is gone", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/model.go", "r != permit || of != t.lock.lockKey {", "r != permit || of.path == \"\" {"}},
			pkg:   "internal/lockwatch", tests: []string{"TestAPermitBehindATurnThatIsGone"},
		},
		{
			number: 731, bug: "watch takes the permit of the first client at a turnstile for that of another one, which has left", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/watch.go", "t != nil && t.isFirst() && len(w.pending) > 1", "t != nil && len(w.pending) > 1"}},
			pkg:   "internal/lockwatch", tests: []string{"TestAPermitBehindATurnThatIsGone"},
		},
		{
			number: 732, bug: "watch says that a client has left where the event of its permit is missing", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/watch.go", "if next.Err != nil { // the event", "if next.Err != nil && w.failed != nil { // the event"}},
			pkg:   "internal/lockwatch", tests: []string{"TestATurnThatIsGoneBeforeMissedEvents"},
		},
		{
			number: 733, bug: "watch forgets the permits of a new semaphore when the connection breaks", where: "ours, until issue 17",
			edits: []edit{
				{"internal/lockwatch/watch.go", "i := w.infos[permits]", "var i info"},
				{"internal/lockwatch/tree.go", "p.info.stat.Czxid != 0 && p.info.stat.Czxid !=", "p.info.stat.Czxid !="},
			},
			pkg: "internal/lockwatch", tests: []string{"TestANewSemaphoreIsKeptOverALostConnection"},
		},
		{
			number: 734, bug: "watch guesses who holds a lock with places that it may not read", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/report.go", "m.loading || m.veils(p.lock) {", "m.loading {"}},
			pkg:   "internal/lockwatch", tests: []string{"TestPlacesThatMayNotBeRead"},
		},
		{
			number: 735, bug: "watch does not see that the server hides changes from it", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/watch.go", "case hidden > 0:", "case hidden > 1<<30:"}},
			pkg:   "internal/lockwatch", tests: []string{"TestPlacesThatMayNotBeRead"},
		},
		{
			number: 736, bug: "watch prints the token that a client has written into its node", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/model.go", "(p.name.Shared || detached)", "(p.name.Shared || detached || true)"}},
			pkg:   "internal/lockwatch", tests: []string{"TestATokenIsNotForged"},
		},
		{
			number: 737, bug: "graph shows a reader behind a writer twice", where: "ours, until issue 17",
			edits: []edit{{"internal/waitgraph/cycles.go", "nearest = i\n", "nearest = -1\n"}},
			pkg:   "internal/waitgraph", tests: []string{"TestAReaderWaitsOnceForTheWriterThatHoldsTheLock"},
		},
		{
			number: 738, bug: "watch that reads again and again says that a client has left whose permit came while it read", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/tree.go", "\t\t\tt.admitted = true\n", "\t\t\t_ = t\n"}},
			pkg:   "internal/lockwatch", tests: []string{"TestPermitsDuringTheRead"},
		},
		{
			number: 871, bug: "watch counts the new holder of a permit as a waiter when the permit came while it read", where: "ours, until issue 20",
			edits: []edit{{"internal/lockwatch/model.go", "	if p.held || !p.admitted {\n", "	if true {\n"}},
			pkg:   "internal/lockwatch", tests: []string{"TestAHolderIsNoWaiter"},
		},
		{
			number: 740, bug: "the times of old data go on in ls --watch", where: "ours, until issue 17",
			edits: []edit{{"internal/cli/ls/live.go", "\t\tat = s.now\n", "\t\tat = now\n"}},
			pkg:   "internal/cli/ls", tests: []string{"TestLsWatchShowsOldDataAsOld"},
		},
		{
			number: 741, bug: "one client's node with a year that JSON does not have ends ls -o json for everybody", where: "ours, until issue 17",
			edits: []edit{{"internal/queue/note.go", "	return time.UnixMilli(min(n.Since, stat.Mtime))", "	return time.UnixMilli(n.Since)"}, {"internal/queue/note.go", " || n.Since > stat.Mtime+slowCreate.Milliseconds() {", " {"}},
			pkg:   "cmd/holdfast", tests: []string{"TestTimesThatNoDocumentCanHave"},
		},
		{
			number: 742, bug: "one node that may not be read ends ls for everybody", where: "ours, until issue 17",
			edits: []edit{{"internal/locks/read.go", "r.denied = append(r.denied, paths[i])\n\t\t\treturn nil", "return res.Err"}},
			pkg:   "cmd/holdfast", tests: []string{"TestOneUnreadableLock"},
		},
		{
			number: 1380, bug: "a copy of the tree says held of a lock whose places may not be read", where: "ours, until issue 40",
			edits: []edit{{"internal/locks/nodes.go", "\t\t\tf.denied = true\n", ""}},
			pkg:   "internal/locks", tests: []string{"TestEveryViewSaysTheSame"},
		},
		{
			number: 1381, bug: "a semaphore is free once the server has removed its empty queue", where: "ours, until issue 40",
			edits: []edit{{"internal/locks/find.go", "!r.exists(turnstile) && len(held) == 0 {", "!r.exists(turnstile) {"}},
			pkg:   "internal/locks", tests: []string{"TestASemaphoreWithoutItsTurnstile"},
		},
		{
			number: 743, bug: "top shows the data of a server that is slow all the time as new", where: "ours, until issue 17",
			edits: []edit{{"internal/cli/top/feed.go", "*perLock+late:", "*perLock+time.Hour:"}},
			pkg:   "internal/cli/top", tests: []string{"TestTopOfASlowServerIsOld"},
		},
		{
			number: 744, bug: "doctor takes servers for separate services because a node was perhaps not made", where: "ours, until issue 17",
			edits: []edit{{"internal/cli/doctor/server.go", "return e.probed })", "return e.probe != \"\" })"}},
			pkg:   "internal/cli/doctor", tests: []string{"TestDoctorNoticesSeparateServers"},
		},
		{
			number: 745, bug: "watch takes a waiter of another layout for the holder of a NodeLock", where: "ours, until issue 17",
			edits: []edit{{"internal/lockwatch/path.go", "case names.Numbered(base):", "case names.Numbered(base) && m.emit == nil:"}},
			pkg:   "internal/lockwatch", tests: []string{"TestPlacesOfOtherLayoutsAreNoLocks"},
		},
		{
			number: 746, bug: "one request that the server throttles ends ls", where: "ours, until issue 17",
			edits: []edit{{"internal/locks/batch.go", "var answers []zk.Result\n\t\t\terr := zk.Retry(ctx, func() (err error) {\n\t\t\t\tanswers, err = r.read(ctx, ops)\n\t\t\t\treturn err\n\t\t\t})", "answers, err := r.read(ctx, ops)"}},
			pkg:   "internal/cli/see", tests: []string{"TestReadsAreSentAgain"},
		},
	}
}
