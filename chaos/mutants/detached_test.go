package mutants

// ofDetached are those of locks that no session owns, and of the commands that act on locks of others.
func ofDetached() []mutant {
	return []mutant{
		{
			number: 620, bug: "a waiter acquires the lock when the node ahead is replaced by that of a detached lock", where: "–",
			edits: []edit{{"internal/queue/names/ahead.go", "(IsDetaching(near.Name) || !mine.Shared", "(!mine.Shared"}},
			tests: []string{"TestDetachedKeepsItsPlaceInTheQueue", "TestReaderWaitsForADetachedLock"},
		},
		{
			number: 621, bug: "a detached lock is made though the waiter's node is gone", where: "–",
			edits: []edit{{"internal/queue/detached.go", "zk.DeleteOp(p.Path(), zk.AnyVersion), create)", "create)"}},
			tests: []string{"TestDetachedWhoseNodeIsRemovedDuringTheChange", "TestDetachedUnderLostConnections"},
		},
		{
			number: 622, bug: "the token of a detached lock is that of its persistent node", where: "–",
			edits: []edit{{"detached.go", "\t\tn.Token = p.Token // that", "\t\tn.Token = 0 // that"}},
			tests: []string{"TestListBreakAndRevokeOfADetachedLock"},
		},
		{
			number: 623, bug: "a waiter whose session ends during the change does not look whether it holds the lock", where: "–",
			edits: []edit{{"detached.go", "\t\texpires, err = d.settle(ctx, &change, c, p.Session.Timeout(), err)\n", "\t\t_ = d.settle\n"}},
			tests: []string{"TestDetachedWhoseSessionEndsDuringTheChange", "TestDetachedThatCannotFindOutSaysSo"},
		},
		{
			number: 624, bug: "TryLock removes a detached lock before it expires", where: "–",
			edits: []edit{{"internal/queue/kept.go", "case !e.over():", "case e.at.IsZero():"}},
			tests: []string{"TestExpiredDetachedLockIsRemoved"},
		},
		{
			number: 625, bug: "a waiter that may not remove an expired lock tries again and again", where: "–",
			edits: []edit{{"internal/queue/await.go", "denied = errors.Is(err, ErrLocked)\n\t\t\tif err == nil || denied {", "if err == nil || errors.Is(err, ErrLocked) {\n\t\t\t\ttime.Sleep(time.Second)"}},
			tests: []string{"TestExpiredDetachedLockThatNobodyMayRemove"},
		},
		{
			number: 626, bug: "break takes the lock from whoever holds it", where: "–",
			edits: []edit{
				{"internal/deed/act.go", "\t\tif a.Ends && l.Reserved", "\t\tif len(p.Places) == 0 && len(l.Queue) > 0 {\n\t\t\tp.Token, p.Places = l.Queue[0].Token, []holdfast.Entry{l.Queue[0].Entry}\n\t\t}\n\t\tif a.Ends && l.Reserved"},
			},
			pkg: "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^break$"},
		},
		{
			number: 627, bug: "break does not ask", where: "–",
			edits: []edit{{"internal/cli/act/audit.go", "\tif f.Yes {\n", "\tif f.Yes || word != \"\" {\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^break$"},
		},
		{
			number: 628, bug: "sessions end removes nodes of other sessions, which have the names now", where: "–",
			edits: []edit{{"internal/deed/session.go", "stat.EphemeralOwner != session", "stat.EphemeralOwner == 0"}},
			pkg:   "internal/deed", tests: []string{"TestTakeAwayLeavesOtherSessions"},
		},
		{
			number: 629, bug: "the audit line is written only afterwards", where: "–",
			edits: []edit{{"internal/deed/audit.go", "missing := write(ctx, c, e)", "missing := error(nil)"}},
			pkg:   "internal/deed", tests: []string{"TestAuditLineComesFirst"},
		},
		{
			number: 680, bug: "locks of named:NAME share a reservation", where: "–",
			edits: []edit{{"reserve/reservation.go", "if strings.HasPrefix(layout, \"named:\") {", "if strings.HasPrefix(layout, \"named:\") && path == \"\" {"}},
			pkg:   "reserve", tests: []string{"TestNamedLocksAreReservedEachByItself"},
		},
		{
			number: 681, bug: "locks of named:NAME share the records of jobs", where: "–",
			edits: []edit{{"internal/cli/see/around.go", "if strings.HasPrefix(layout.Name, \"named:\") {", "if strings.HasPrefix(layout.Name, \"named:\") && path == \"\" {"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^run_once$"},
		},
		{
			number: 682, bug: "a second signal ends lock --detached, and nobody knows the lock's id", where: "–",
			edits: []edit{{"internal/cli/hold/acquire.go", "stop != nil && k.plan.detached.on && c != nil", "stop != nil && k.plan.detached.on && k.plan.try && c != nil"}},
			pkg:   "internal/cli/hold", tests: []string{"TestSecondSignalWaitsForADetachedLock"},
		},
		{
			number: 683, bug: "a reservation that fails stays, and others wait for nothing", where: "–",
			edits: []edit{{"internal/cli/hold/min_hold.go", "\t\tr.undo(c, h) // it may be recorded all the same\n", ""}},
			pkg:   "internal/cli/hold", tests: []string{"TestReservationThatFailsDoesNotStay"},
		},
		{
			number: 684, bug: "lock waits for the holdfast run around it, which waits for lock", where: "–",
			edits: []edit{{"internal/cli/hold/lock.go", "beside, err := p.deadlock()\n\tif err != nil {", "beside, err := p.deadlock()\n\tif err != nil && stdin {"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^lock$"},
		},
		{
			number: 685, bug: "one lost request drops the time to live of a detached lock", where: "–",
			edits: []edit{{"internal/queue/detached.go", "lost >= unknownAfter", "lost >= 1"}},
			tests: []string{"TestServerRemovesAnExpiredDetachedLock"},
		},
		{
			number: 686, bug: "the end of a reservation ends the one that has replaced it", where: "–",
			edits: []edit{{"reserve/reservation.go", "(now == nil || now.Token != r.Token)", "now == nil"}},
			pkg:   "reserve", tests: []string{"TestReservationIsEnded"},
		},
		{
			number: 687, bug: "a record of a beginning is not shown", where: "–",
			edits: []edit{{"once/job.go", "\tif begun != nil && (last == nil || begun.Token > last.Token) {", "\tif begun != nil && last != nil && begun.Token > last.Token {"}},
			pkg:   "once", tests: []string{"TestRecordsAreReadAndForgotten"},
		},
		{
			number: 689, bug: "the record of a run that has failed is shown as that of a success", where: "–",
			edits: []edit{{"once/job.go", "r, err = &found, last.outcome()", "r = &found"}},
			pkg:   "once", tests: []string{"TestRecordsAreReadAndForgotten"},
		},
		{
			number: 688, bug: "break ends --min-hold of a holder with another token", where: "–",
			edits: []edit{{"internal/deed/act.go", "l.Reserved != nil && l.Reserved.Token == token {", "l.Reserved != nil {"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^run_min_hold$"},
		},
	}
}
