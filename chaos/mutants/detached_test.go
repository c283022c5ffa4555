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
			edits: []edit{{"detached.go", "\treturn d.settle(ctx, c, p.Session.Timeout(), err)\n", "\treturn Claim{}, err\n"}},
			tests: []string{"TestDetachedWhoseSessionEndsDuringTheChange", "TestDetachedThatCannotFindOutSaysSo"},
		},
		{
			number: 624, bug: "TryLock removes a detached lock before it expires", where: "–",
			edits: []edit{{"internal/queue/kept.go", "case !e.over():", "case e.at.IsZero():"}},
			tests: []string{"TestExpiredDetachedLockIsRemoved"},
		},
		{
			number: 625, bug: "a waiter that may not remove an expired lock tries again and again", where: "–",
			edits: []edit{{"internal/queue/await.go", "denied = errors.Is(err, ErrLocked)\n\t\t\tif err == nil || denied {", "if err == nil || errors.Is(err, ErrLocked) {\n\t\t\t\ttime.Sleep(time.Second)"}, {"internal/queue/await.go", "\t\"errors\"\n\n", "\t\"errors\"\n\t\"time\"\n\n"}},
			tests: []string{"TestExpiredDetachedLockThatNobodyMayRemove"},
		},
		{
			number: 626, bug: "break takes the lock from whoever holds it", where: "–",
			edits: []edit{
				{"cmd/holdfast/act.go", "\tends := a.ends && reserved", "\tif len(places) == 0 && len(queue) > 0 {\n\t\ttoken, places = queue[0].Token, queue[:1]\n\t}\n\tends := a.ends && reserved"},
			},
			pkg: "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^break$"},
		},
		{
			number: 627, bug: "break does not ask", where: "–",
			edits: []edit{{"cmd/holdfast/act.go", "\tif f.yes {\n", "\tif f.yes || word != \"\" {\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^break$"},
		},
		{
			number: 628, bug: "sessions end removes nodes of other sessions, which have the names now", where: "–",
			edits: []edit{{"cmd/holdfast/sessions.go", "stat.EphemeralOwner != session", "stat.EphemeralOwner == 0"}},
			pkg:   "cmd/holdfast", tests: []string{"TestTakeAwayLeavesOtherSessions"},
		},
		{
			number: 629, bug: "the audit line is written only afterwards", where: "–",
			edits: []edit{{"cmd/holdfast/audit.go", "before := writeAudit(ctx, c, e)", "before := error(nil)"}},
			pkg:   "cmd/holdfast", tests: []string{"TestAuditLineComesFirst"},
		},
	}
}
