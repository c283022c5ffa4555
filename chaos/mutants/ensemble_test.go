package mutants

// ofTheEnsemble are bugs that need an ensemble to do harm. The model of one in chaos finds
// them.
func ofTheEnsemble() []mutant {
	return []mutant{
		{
			number: 172, simulated: true, bug: "the numbers of requests begin again with every connection", where: "holdfast until issue 13",
			edits: []edit{{"zk/session.go", "\ts.conn = c\n", "\ts.conn, s.xid = c, 0\n"}},
			pkg:   "zk", tests: []string{"TestRequestsAreNumberedOverAllConnections"},
		},
	}
}
