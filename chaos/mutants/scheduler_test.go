package mutants

// ofTheScheduler are bugs of the order in which the server applies requests, and of where it does.
func ofTheScheduler() []mutant {
	const (
		pkg  = "zkserver/internal/sched"
		file = "zkserver/internal/sched/sched.go"
	)
	return []mutant{
		{
			number: 235, bug: "a small request overtakes a waiting one of its connection", where: "–",
			edits: []edit{{file, "\tif len(f.waits) == 0 {\n\t\tf.pay", "\tif len(f.waits) == 0 || !large && f.spent == 0 && !s.stalled(r) {\n\t\tf.pay"}},
			pkg:   pkg, tests: []string{"TestFloods", "TestAnyTraffic"},
		},
		{
			number: 236, bug: "a client that does not read keeps the others waiting", where: "–",
			edits: []edit{{file, "\t\t\ts.pop()\n\t\t\tf.aside = true", "\t\t\treturn r, false\n\t\t\tf.aside = true"}},
			pkg:   pkg, tests: []string{"TestStalled"},
		},
		{
			number: 237, bug: "a batch takes all that waits", where: "–",
			edits: []edit{{file, "case s.taken && s.work+w.size > Full:", "case false:"}},
			pkg:   pkg, tests: []string{"TestFloods"},
		},
		{
			number: 238, bug: "small requests go on while others wait", where: "–",
			edits: []edit{{file, " && s.work < Full && s.first == nil)", ")"}},
			pkg:   pkg, tests: []string{"TestFloods"},
		},
		{
			number: 239, bug: "a request that costs more than a share costs nothing", where: "–",
			edits: []edit{{file, "f.spent = min(f.spent+work, maxDebt)", "f.spent = min(f.spent+min(work, 512), maxDebt)"}},
			pkg:   pkg, tests: []string{"TestDebts"},
		},
		{
			number: 240, bug: "a server that finds a single client takes it for alone for ever", where: "–",
			edits: []edit{{file, "heard = s.second\n\t}", "heard = arrival[R]{}\n\t}"}},
			pkg:   pkg, tests: []string{"TestAlone"},
		},
		{
			number: 241, bug: "an idle server answers before it commits", where: "–",
			edits: []edit{{"zkserver/inline.go", "\tif b != nil && !s.commitNow(b, c) {", "\tif b != nil {\n\t\ts.release(b, c)\n\t\tb.answers, b.released, b.arrivals = nil, nil, nil\n\t}\n\tif b != nil && !s.commitNow(b, c) {"}},
			pkg:   "zkserver", tests: []string{"TestAnswerToARequestThatComesAloneWaitsForTheDisk"},
		},
	}
}
