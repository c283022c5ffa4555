package mutants

// ofHandovers are those of elections whose leaders hand over on request.
func ofHandovers() []mutant {
	return []mutant{
		{
			number: 1634, bug: "a candidate does not learn that it is next when the one ahead of it steps behind", where: "–",
			edits: []edit{{"prefer.go", "\tif c.knows {\n", "\tif true {\n"}},
			tests: []string{"TestLeaderHandsOverToANamedCandidate", "TestNamedHandoversInTheLongRun"},
		},
		{
			number: 1635, bug: "a leader is asked to hand over to a candidate behind one of another library", where: "–",
			edits: []edit{{"internal/deed/handover.go", "if _, ok := p.Preference(); ok {", "if _, ok := p.Preference(); ok || i > 0 {"}},
			tests: []string{"TestHandoverIsRefused"},
		},
		{
			number: 1656, bug: "candidates in between do not step behind the one that was named", where: "–",
			edits: []edit{{"prefer.go", "o.Name == to }):\n\t\t\tstep()\n", "o.Name == to }):\n"}},
			tests: []string{"TestLeaderHandsOverToANamedCandidate", "TestNamedHandoverSurvivesLostConnections"},
		},
		{
			number: 1657, bug: "a candidate that was named as the leader hands over to a preferred one", where: "–",
			edits: []edit{{"prefer.go", "\t\t\tif c.chosen {\n\t\t\t\treturn nil\n\t\t\t}\n", ""}},
			tests: []string{"TestLeaderHandsOverToANamedCandidate"},
		},
		{
			number: 1658, bug: "a request for a candidate that has left stays in the leader's node", where: "–",
			edits: []edit{{"prefer.go", "return c.forget(ctx, h)\n", "return nil\n"}},
			tests: []string{"TestHandoverToACandidateThatLeaves"},
		},
		{
			number: 1659, bug: "every candidate with a preference lists the line for each that joins", where: "–",
			edits: []edit{{"internal/queue/wait.go", "if p.Next != nil && p.ahead.Far == \"\" {", "if p.Next != nil {"}},
			tests: []string{"TestIdleCandidatesWithPreferencesCostNoMore"},
		},
	}
}
