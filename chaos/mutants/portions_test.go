package mutants

// ofPortions are bugs of operations that are bounded, or done in portions.
func ofPortions() []mutant {
	const (
		pkg  = "zkserver"
		tree = "zkserver/internal/tree"
	)
	return []mutant{
		{
			number: 269, bug: "a watcher that was dropped is told until its watches are freed", where: "–",
			edits: []edit{{tree + "/watchtable.go", "return len(w.dropped) > 0 && w.dropped[by] != nil", "return false"}},
			pkg:   tree, tests: []string{"TestManyWatchesAreDroppedInPortions"},
		},
		{
			number: 270, bug: "watches set again go with the dropped ones", where: "–",
			edits: []edit{{tree + "/watchtable.go", "\tif w.dropped[by] != nil {\n\t\tw.sweepAll(by)", "\tif false {\n\t\tw.sweepAll(by)"}},
			pkg:   tree, tests: []string{"TestDroppedWatcherWatchesAgain"},
		},
		{
			number: 271, bug: "all watches of a connection are freed at once", where: "ours, until 3a97b7e",
			edits: []edit{{tree + "/watch.go", "t.watches.sweep(1000)", "t.watches.sweep(1 << 30)"}},
			pkg:   tree, tests: []string{"TestManyWatchesAreDroppedInPortions"},
		},
		{
			number: 272, bug: "recursive watches are looked up by path on every level", where: "ours, until 3a97b7e",
			edits: []edit{{tree + "/watch.go", "\t\t\tcase above.recursive == nil:\n", "\t\t\tcase t.watches.armed[watchRecursive][above.path] == nil || t.watches.armed[watchRecursive][above.path] == nil || t.watches.armed[watchRecursive][above.path] == nil || t.watches.armed[watchRecursive][above.path] == nil || t.watches.armed[watchRecursive][above.path] == nil || t.watches.armed[watchRecursive][above.path] == nil || t.watches.armed[watchRecursive][above.path] == nil || t.watches.armed[watchRecursive][above.path] == nil:\n"}},
			pkg:   tree, tests: []string{"TestRecursiveWatchesOnEveryLevelAreNear"},
		},
		{
			number: 273, bug: "a recursive watch misses a node created after it", where: "–",
			edits: []edit{{tree + "/tree.go", "\tn.recursive = t.watches.armed[watchRecursive][n.path]\n", ""}},
			pkg:   tree, tests: []string{"TestPersistentWatches"},
		},
		{
			number: 274, bug: "one write with many watchers makes later writes slow", where: "ours, until 3a97b7e",
			edits: []edit{{tree + "/telling.go", "manyMatches = 500\n", "manyMatches = 500_000_000\n"}},
			pkg:   tree, tests: []string{"TestManyWatchersLeaveNoWorkBehind"},
		},
		{
			number: 275, bug: "watches on many levels do not count for a transaction", where: "–",
			edits: []edit{{tree + "/multi.go", "-steps+t.foreseen > t", "-steps > t"}},
			pkg:   tree, tests: []string{"TestWorkOfATransactionIsBounded"},
		},
		{
			number: 276, bug: "a transaction refused for its work is half done", where: "–",
			edits: []edit{{tree + "/multi.go", "t.finish(zkproto.CodeBadArguments)", "t.finish(zkproto.CodeOK)"}},
			pkg:   tree, tests: []string{"TestWorkOfATransactionIsBounded"},
		},
		{
			number: 277, bug: "the levels of a session's nodes are not counted at its end", where: "–",
			edits: []edit{{tree + "/write.go", "\t\t\tlevels += strings.Count(n.path, \"/\")\n", ""}},
			pkg:   tree, tests: []string{"TestASessionEndsInPortions"},
		},
		{
			number: 278, bug: "deep nodes are reaped all at once", where: "–",
			edits: []edit{{tree + "/reap.go", "\t\t\tsize += len(n.path)\n", ""}},
			pkg:   tree, tests: []string{"TestReapingOfDeepNodesIsDoneInShares"},
		},
		{
			number: 279, bug: "a delay between portions expires live sessions", where: "–",
			edits: []edit{{"zkserver/ending.go", "\t\tif at.Sub(sess.touched)", "\t\tif s.owner.now.Sub(sess.touched)"}}, pkg: pkg, tests: []string{"TestSessionHeardBetweenPortionsLives"},
		},
		{
			number: 280, bug: "sessions that expire together end at once", where: "ours, until 3a97b7e",
			edits: []edit{{"zkserver/ending.go", "if ended >= expirePortion || s.tooMuchToTell() {", "if ended < 0 {"}}, pkg: pkg, tests: []string{"TestSessionsExpireInPortions"},
		},
		{
			number: 281, bug: "each portion of setWatches is answered", where: "–",
			edits: []edit{{"zkserver/operate.go", "\t\tif r.more {", "\t\tif false {"}}, pkg: pkg, tests: []string{"TestWatchesAreTakenOverInPortions"},
		},
		{
			number: 282, bug: "a portion without an answer keeps its slot", where: "–",
			edits: []edit{{"zkserver/conn.go", "\t\tc.release(answers) // some answers have no bytes\n\t\tif len(buf) > 0 {\n", "\t\tif len(buf) > 0 {\n\t\t\tc.release(answers)\n"}}, pkg: pkg, tests: []string{"TestWatchesAreTakenOverInPortions"},
		},
		{
			number: 283, bug: "portions of setWatches repeat paths", where: "–",
			edits: []edit{{"zkserver/request.go", "\t\t\t\tcut()\n\t\t\t\tbegin = read()\n", "\t\t\t\tcut()\n"}}, pkg: pkg, tests: []string{"TestPortionsOfSetWatches"},
		},
		{
			number: 284, bug: "transactions are decoded while they wait", where: "ours, until 3a97b7e",
			edits: []edit{{"zkserver/request.go", "const decodedEarly = 512", "const decodedEarly = 4096"}}, pkg: pkg, tests: []string{"TestWaitingRequestsTakeBoundedMemory"},
		},
		{
			number: 285, bug: "the whole of a refused ACL is kept while it waits", where: "ours, until 3a97b7e",
			edits: []edit{{"zkserver/request.go", "\tif len(acl) > tree.MaxACLEntries {", "\tif false {"}}, pkg: pkg, tests: []string{"TestWaitingRequestsTakeBoundedMemory"},
		},
		{
			number: 286, bug: "a session that was ending comes back with the next start", where: "–",
			edits: []edit{{"zkserver/session.go", "\t\t\tif sess.ending {\n", "\t\t\tif false {\n"}}, pkg: pkg, tests: []string{"TestAnEndingSessionDoesNotComeBack"},
		},
		{
			number: 287, bug: "closeSession is answered before all nodes are gone", where: "–",
			edits: []edit{{"zkserver/ending.go", "\t\ts.notify(nil)\n\t\ts.later(", "\t\ts.notify(nil)\n\t\tended()\n\t\tended = func() {}\n\t\ts.later("}}, pkg: pkg, tests: []string{"TestASessionWithManyNodesEndsInPortions"},
		},
		{
			number: 288, bug: "a session that is ending is served", where: "–",
			edits: []edit{{"zkserver/operate.go", "sess.conn, c.owned.session = nil, nil // so that", "sess.conn = nil // so that"}}, pkg: pkg, tests: []string{"TestASessionWithManyNodesEndsInPortions"},
		},
		{
			number: 292, bug: "a large request and a small one wait for each other", where: "ours, before it was released",
			edits: []edit{{"zkserver/reader.go", "r.undecoded || len(r.frame) > largeRequest || !c.mayServeInline()", "r.undecoded || !c.mayServeInline()"},
				{"zkserver/reader.go", "r, err = c.next(in, false)", "r, err = c.next(in, true)"}},
			pkg: pkg, tests: []string{"TestALargeRequestAndASmallOneTogether"},
		},
		{
			number: 293, bug: "the end of a connection overtakes the answer to closeSession", where: "ours, before it was released",
			edits: []edit{{"zkserver/owner.go", "if !c.owned.closing {", "if true {"}},
			pkg:   pkg, tests: []string{"TestAnEndingSessionAnswersAClientThatHasClosedItsHalf"},
		},
		{
			number: 294, bug: "sessions that end during one commit fill the next batch without a bound", where: "ours, before it was released",
			edits: []edit{{"zkserver/telling.go", "\to.batch.released = append(o.batch.released, func() {\n\t\ts.queue.push(", "\tfunc(f func()) { f() }(func() {\n\t\ts.queue.push("}},
			pkg:   pkg, tests: []string{"TestEndingSessionsLeaveABatchItsSize"},
		},
		{
			number: 295, bug: "portions of all sessions that end come in one turn", where: "ours, before it was released",
			edits: []edit{{"zkserver/ending.go", "\t\ts.later(func() { s.endPortion(sess, ended) })", "\t\ts.queue.push(&request{kind: kindCall, call: func() { s.endPortion(sess, ended) }})"}},
			pkg:   pkg, tests: []string{"TestEndingSessionsTakeTurns"},
		},
		{
			number: 296, bug: "a session that a restart ends in portions counts as damage", where: "ours, before it was released",
			edits: []edit{{"zkserver/session.go", "if o.sessions[id] == nil && ending[id] == nil {", "if o.sessions[id] == nil {"}},
			pkg:   pkg, tests: []string{"TestASessionThatARestartEndsInPortionsIsNoDamage"},
		},
	}
}
