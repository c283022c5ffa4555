package mutants

// ofMendedHolds are those of detached locks that expire, of Holds that are given to functions, of lines, of readers under
// a writer, of reads behind a write, and of hooks.
func ofMendedHolds() []mutant {
	return []mutant{
		{
			number: 900, bug: "a detached lock whose answer was late is returned after it has expired", where: "ours, until it was attacked",
			edits: []edit{{"detached.go", "left <= 0 || 2*left < d.expires.Milliseconds()", "left == -1<<63"}},
			tests: []string{"TestDetachedWhoseAnswerIsLate", "TestDetachedThatIsPassedOnBeforeItsAnswer"},
		},
		{
			number: 901, bug: "what is left of a detached lock does not count the way of the answer", where: "–",
			edits: []edit{{"internal/queue/detached.go", "- elapsed.Milliseconds() - 1", "- 0*elapsed.Milliseconds() - 1"}},
			tests: []string{"TestDetachedWhoseAnswerIsLate", "TestDetachedThatIsPassedOnBeforeItsAnswer"},
		},
		{
			number: 902, bug: "a detached lock that came too late stays held", where: "–",
			edits: []edit{{"detached.go", "\t\td.giveUp(ctx, c, p.Session.Timeout())\n\t\treturn Claim{}, errLate\n", "\t\treturn Claim{}, errLate\n"}},
			tests: []string{"TestDetachedWhoseAnswerIsLate"},
		},
		{
			number: 903, bug: "a detached lock that is shorter than the way to the server is tried for for ever", where: "–",
			edits: []edit{{"detached.go", "\t\t\tcase late < maxLate:\n", "\t\t\tcase late < 1<<62:\n"}},
			tests: []string{"TestDetachedThatIsTooShort"},
		},
		{
			number: 904, bug: "a forged time of expiry keeps a detached lock for ever", where: "ours, until it was attacked",
			edits: []edit{{"internal/queue/detached.go", "left := max(n.Expires, now.ms) - now.ms", "left := n.Expires - now.ms"}},
			tests: []string{"TestForgedExpiry"},
		},
		{
			number: 905, bug: "an expired detached lock is returned, and the simulation sees it", where: "ours, until it was attacked",
			edits: []edit{{"detached.go", "left <= 0 || 2*left < d.expires.Milliseconds()", "left == -1<<63"}},
			pkg:   "chaos", tests: []string{"TestSimulationOfDetached"},
		},
		{
			number: 906, bug: "readers, permits and slots are given turns, and the job runs twice", where: "ours, until it was attacked",
			edits: []edit{{"hold.go", "case l.Kind == queue.Semaphore || l.Kind == queue.Slots || t.Places[0].Shared:", "case false:"}},
			tests: []string{"TestFunctionsRefuseTheWrongHold"},
		},
		{
			number: 907, bug: "a turn is recorded through the client of the lock, in another chroot", where: "ours, until it was attacked",
			edits: []edit{{"hold.go", "case d.client != nil && l.Client != d.client:", "case false:"}},
			tests: []string{"TestFunctionsRefuseTheWrongHold"},
		},
		{
			number: 908, bug: "Proclaim writes over the node of a Mutex", where: "ours, until it was attacked",
			edits: []edit{{"hold.go", "(!l.term || l.Client", "(l.Client"}},
			tests: []string{"TestFunctionsRefuseTheWrongHold"},
		},
		{
			number: 909, bug: "two Holds that share a node are given turns", where: "–",
			edits: []edit{{"hold.go", "case d.one && t.IsShared():", "case false:"}},
			tests: []string{"TestFunctionsRefuseTheWrongHold"},
		},
		{
			number: 910, bug: "a turn overwrites the record of a run that has ended since", where: "–",
			edits: []edit{{"once/marks.go", "return zk.SetOp(node, m.encode(), old.stat.Version)", "return zk.SetOp(node, m.encode(), zk.AnyVersion)"}},
			pkg:   "once", tests: []string{"TestTurnIsRecordedOnce"},
		},
		{
			number: 911, bug: "a caller with an ACL gets the open node of another", where: "ours, until it was attacked",
			edits: []edit{{"options.go", "o.value, o.acl, o.handoffs", "o.value, nil, o.handoffs"}, {"reentry.go", "case l.acl != nil && !slices.Equal(l.acl, made.acl):", "case !slices.Equal(l.acl, l.acl):"}},
			tests: []string{"TestCallersOfALineHaveNodesOfTheirOwn", "TestBadOptionFailsItsCallerAlone", "TestNodeThatCannotBeSharedIsRefused"},
		},
		{
			number: 912, bug: "each reader under a writer makes a node, and the names are the same", where: "ours, until it was attacked",
			edits: []edit{{"reentry.go", "\tif l.Grammar.Read.Unique() {\n", "\tif ctx != nil {\n"}},
			tests: []string{"TestWriterTakesTheReadSideManyTimes"},
		},
		{
			number: 913, bug: "a reader under a writer does not wait until the one before it is gone", where: "–",
			edits: []edit{{"reentry.go", "case errors.Is(err, zk.ErrNodeExists) && !a.Unique:", "case errors.Is(err, zk.ErrNodeExists) && a.Unique:"}},
			tests: []string{"TestReadSideWhileTheReaderBeforeLeaves"},
		},
		{
			number: 914, bug: "a reader under a writer writes into its node, which may be its successor's", where: "–",
			edits: []edit{{"internal/tenure/rewrite.go", "(p.Unique || !p.Exact)", "(p.Unique || !p.Exact || p.Shared)"}},
			tests: []string{"TestReaderNodesThatComeBackAreNotRewritten"},
		},
		{
			number: 915, bug: "an observer's next session may show an earlier leader", where: "ours, until it was attacked",
			edits: []edit{{"election.go", "queue.Barrier(ctx, s, q.Path)", "s.Sync(ctx, q.Path)"}},
			tests: []string{"TestTermsNeverGoBack", "TestReadsAreBehindAWrite"},
		},
		{
			number: 916, bug: "the record of a run is read at a server that may be behind", where: "ours, until it was attacked",
			edits: []edit{{"once/job.go", "queue.BehindWrite(ctx, c.client, c.dir, func() (err error) {", "func(_ error, read func() error) error { return read() }(queue.ErrGone, func() (err error) {"}},
			tests: []string{"TestReadsAreBehindAWrite"},
		},
		{
			number: 917, bug: "a hook that panics keeps the lock until the session ends", where: "ours, until it was attacked",
			edits: []edit{{"lock.go", "if !reported && h != nil {", "if !reported && h != nil && permits < 0 {"}},
			tests: []string{"TestHookThatPanicsLeavesNoLock"},
		},
		{
			number: 918, bug: "a hook that panics keeps the locks of a MultiLock that are held already", where: "–",
			edits: []edit{{"multilock.go", "\terr = errPanic\n", ""}},
			tests: []string{"TestHookThatPanicsLeavesNoLock", "TestTraceThatPanicsLeavesNoLock"},
		},
		{
			number: 919, bug: "a candidate whose terms are taken away begins hundreds a second", where: "ours, until it was attacked",
			edits: []edit{{"election.go", "turn = turn.NextAfter(ctx, began)", "turn, _ = turn+1, began"}},
			tests: []string{"TestLeadPausesBetweenTermsThatAreTakenAway"},
		},
		{
			number: 1053, bug: "a lock is handed on while a transaction of the former Hold is on its way", where: "ours, until a reader found it",
			edits: []edit{{"internal/tenure/line.go", "t.revoked || t.commits > 0 || q.handoffs", "t.revoked || q.handoffs"}},
			tests: []string{"TestCommitIsNotExecutedUnderTheNextHold"},
		},
		{
			number: 1054, bug: "a lock is kept while a transaction of the former Hold is on its way", where: "ours, until a reader found it",
			edits: []edit{{"internal/tenure/keep.go", "t.revoked || t.commits > 0 || k.wanted", "t.revoked || k.wanted"}},
			tests: []string{"TestCommitIsNotExecutedUnderTheNextHold"},
		},
		{
			number: 1055, bug: "a transaction whose outcome is not known counts as ended, and the lock is handed on", where: "–",
			edits: []edit{{"internal/tenure/tenure.go", "\tif known {\n\t\tt.commits--\n\t}", "\tt.commits--"}},
			tests: []string{"TestCommitIsNotExecutedUnderTheNextHold"},
		},
		{
			number: 1056, bug: "TryLock takes a lock that its client has, with options that are refused", where: "ours, until a reader found it",
			edits: []edit{{"lock.go", "\t\tif err := l.valid(); err != nil {\n\t\t\treturn nil, err\n\t\t}\n\t\to, err := tenure.Try", "\t\to, err := tenure.Try"}},
			tests: []string{"TestTryLockOfAKeptLockRefusesOptions"},
		},
	}
}
