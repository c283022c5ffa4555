package mutants

// ofTheEnsemble are bugs that need an ensemble to do harm. The model of one in chaos finds
// them.
func ofTheEnsemble() []mutant {
	return []mutant{
		{
			number: 172, simulated: true, bug: "the numbers of requests begin again with every connection", where: "holdfast until 3a97b7e",
			edits: []edit{{"zk/session.go", "\ts.conn, s.reattaching = c, false\n", "\ts.conn, s.reattaching, s.xid = c, false, 0\n"}},
			pkg:   "zk", tests: []string{"TestRequestsAreNumberedOverAllConnections"},
		},
		{
			number: 173, bug: "that bridge (157), on a whole ensemble", where: "holdfast until 3a97b7e",
			edits: []edit{{"zk/proof.go", "\tswitch {\n\tcase lasts(p.touched):",
				"\tif !p.step.sent.IsZero() {\n\t\tp.touch(p.step.sent.Add(-max(timeout/5, pingEvery(p.tick)+500*time.Millisecond)))\n\t}\n\tswitch {\n\tcase lasts(p.touched):"}},
			pkg: "chaos", tests: []string{"TestStallsOfBothDirectionsInTurnLetNobodyHoldTwice"},
		},
		{
			number: 174, bug: "a NodeLock says since when it is held", where: "–",
			edits: []edit{{"internal/tenure/rewrite.go", "(p.Unique || !p.Exact)", "(p.Unique || !p.Exact || t.Kind == queue.Node)"}},
			tests: []string{"TestListTellsSinceWhenALockIsHeld"},
		},
	}
}
