package mutants

// ofPreferences are those of the elections with preferences.
func ofPreferences() []mutant {
	return []mutant{
		{
			number: 1620, bug: "a leader hands over to a preferred candidate as soon as it comes", where: "keepalived without preempt_delay",
			edits: []edit{{"prefer.go", "ends := began.Add(c.lock.failback)", "ends := began"}},
			tests: []string{"TestPreferredCandidateLeadsAfterFailback", "TestFlappingCandidateDoesNotLead"},
		},
		{
			number: 1621, bug: "a leader resigns before the next candidate can lead", where: "–",
			edits: []edit{{"prefer.go", "return stat.Mzxid > c.offer, nil", "return stat.Mzxid > 0, nil"}},
			tests: []string{"TestHandoverWaitsForAConnectedCandidate"},
		},
		{
			number: 1622, bug: "a leader hands over to a candidate that is not preferred", where: "–",
			edits: []edit{{"prefer.go", "best == nil || line[1].Preference() < best.Preference()", "best == nil"}},
			tests: []string{"TestPreferenceBesideCandidatesWithout"},
		},
		{
			number: 1623, bug: "candidates in between do not step behind a preferred one", where: "–",
			edits: []edit{{"prefer.go", "if best, w.due, err = c.best(ctx, line[2:]); err == nil && best != nil {\n\t\t\tstep()\n", "if best, w.due, err = c.best(ctx, line[2:]); err == nil && best != nil {\n"}},
			tests: []string{"TestPreferredCandidateLeadsAfterFailback"},
		},
		{
			number: 1624, bug: "the next in line leads though a preferred candidate is behind it", where: "–",
			edits: []edit{
				{"prefer.go", "\tif err == nil && c.preferredIn(line) {", "\tif err == nil && c.preferredIn(line[:0]) {"},
				{"prefer.go", "if c.preferredIn(line[2:]) {", "if false {"},
			},
			tests: []string{"TestPreferredCandidateThatComesWithTheLoss"},
		},
		{
			number: 1625, bug: "the term ends before Lead's function has returned", where: "–",
			edits: []edit{{"prefer.go", "\t\t\tcancel(ErrHandover)\n", "\t\t\tcancel(ErrHandover)\n\t\t\th.Unlock()\n"}},
			tests: []string{"TestLeadHandsOver"},
		},
		{
			number: 1626, bug: "Lead returns after a handover instead of campaigning again", where: "–",
			edits: []edit{{"election.go", "lost = handed() || errors", "lost = handed() && false || errors"}},
			tests: []string{"TestLeadHandsOver"},
		},
		{
			number: 1627, bug: "a candidate that flaps moves others behind it, so they never lead", where: "–",
			edits: []edit{{"prefer.go", "case leader.Preference() >= c.lock.preferred:", "case leader.Preference() >= 0:"}},
			tests: []string{"TestFlappingCandidateDoesNotLead"},
		},
		{
			number: 1628, bug: "the time in line is what the server's clock says, also when it was set forward", where: "–",
			edits: []edit{{"prefer.go", "then.Before(began) {", "true {"}},
			tests: []string{"TestFailbackUnderAClockThatMoves"},
		},
		{
			number: 1629, bug: "a part of a host's name is taken for a preference", where: "–",
			edits: []edit{{"internal/queue/names/prefer.go", "if !ok || !endsInID(before) {", "if !ok {"}},
			pkg:   "internal/queue/names", tests: []string{"TestNamesOfOthersHaveNoPreference"},
		},
		{
			number: 1630, bug: "elect goes on leading when a preferred candidate is in line", where: "–",
			edits: []edit{{"internal/cli/hold/handover.go", "\t\t\t\to.pass(stop)\n", ""}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^elect_prefer$"},
		},
		{
			number: 1631, bug: "a signal during a handover does not end elect", where: "–",
			edits: []edit{{"internal/cli/hold/handover.go", "o.asked && !o.stopped &&", "o.asked &&"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^elect_prefer$"},
		},
		{
			number: 1632, bug: "after a lost connection, a candidate does not follow the line any more", where: "–",
			edits: []edit{{"prefer.go", "\t\t\tturn, began = turn.NextAfter(ctx, began), time.Now()\n", "\t\t\t_, _ = turn, began\n\t\t\treturn\n"}},
			tests: []string{"TestHandoverSurvivesLostConnections", "TestNamedHandoverSurvivesLostConnections"},
		},
		{
			number: 1633, bug: "a candidate learns that it is next only when the one ahead of it has gone", where: "–",
			edits: []edit{{"internal/queue/wait.go", "if p.Next != nil && p.ahead.Far == \"\" {", "if p.Next != nil && p.ahead.Far == \"-\" {"}},
			tests: []string{"TestPreferredLeadersInTheLongRun"},
		},
	}
}
