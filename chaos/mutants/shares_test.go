package mutants

// ofShares are bugs of what one client may have while others wait, and of the delays of guessers.
func ofShares() []mutant {
	return []mutant{
		{
			number: 1200, bug: "a crowd of addresses guesses at one name without a delay", where: "holdfast until b1e0e1e",
			edits: []edit{{"internal/guess/guess.go", "n = max(n, l.least(\"name\", p.name).count(now))", "n = max(n, 0)"}},
			pkg:   "internal/guess", tests: []string{"TestACrowdAtANameDelaysItselfAlone"},
		},
		{
			number: 1201, bug: "the delays of a guesser do not grow", where: "holdfast until b1e0e1e",
			edits: []edit{{"internal/guess/guess.go", "\t\td *= 2\n", "\t\td += 0\n"}},
			pkg:   "internal/guess", tests: []string{"TestDelaysGrow"},
		},
		{
			number: 1202, bug: "a login of one's own gives back the guesses at others", where: "–",
			edits: []edit{{"internal/guess/guess.go", "\ta.Undo()\n\tl := a.limiter", "\ta.Undo()\n\ta.limiter.counters = nil\n\ta.limiter.counters = make([]counter, slots)\n\tl := a.limiter"}},
			pkg:   "internal/guess", tests: []string{"TestARightPasswordForgivesNothing"},
		},
		{
			number: 1216, bug: "a client at work keeps the guesses of others at its address from being forgotten", where: "ours, before it was released",
			edits: []edit{{"internal/guess/guess.go", "l.change(a.pair, func(c *counter) { c.undecided++ })", "l.change(a.pair, func(c *counter) { c.undecided++; c.at = now })"}},
			pkg:   "internal/guess", tests: []string{"TestRightPasswordsKeepNoGuesses"},
		},
		{
			number: 1203, bug: "the newest client gives way, and not the one with the most", where: "–",
			edits: []edit{{"internal/fair/fair.go", "if first == nil || n > most || n == most && (u.spare || !first.spare) {", "if first == nil || n > 0 || most < 0 {"}},
			pkg:   "internal/fair", tests: []string{"TestTheLargestClientGivesWay"},
		},
		{
			number: 1204, bug: "turns go by arrival, so one client with many requests keeps the others waiting", where: "holdfast until b1e0e1e",
			edits: []edit{{"internal/fair/fair.go", "if t.of.sum(w.keys) < t.of.sum(t.waiting[at].keys) {", "if i < at && len(w.keys) > 0 {"}},
			pkg:   "internal/fair", tests: []string{"TestTurnsAreShared"},
		},
		{
			number: 1205, bug: "bodies that arrive byte by byte hold the turns at the servers", where: "holdfast until b1e0e1e",
			edits: []edit{{"terraform/state.go", "\tbody, forget, err := b.receive(ctx, w, r)\n", "\tif early, err := b.storing.Take(ctx); err == nil {\n\t\tdefer early()\n\t}\n\tbody, forget, err := b.receive(ctx, w, r)\n"}},
			pkg:   "terraform", tests: []string{"TestSlowUploadsLeaveOthersTheirTurns"},
		},
		{
			number: 1206, bug: "clients that do not read hold the turns at the servers", where: "holdfast until b1e0e1e",
			edits: []edit{{"terraform/state.go", "\tdone() // from now on", "\tdefer done() // from now on"}},
			pkg:   "terraform", tests: []string{"TestSlowDownloadsLeaveOthersTheirTurns"},
		},
		{
			number: 1207, bug: "a body may take as long as it likes", where: "holdfast until b1e0e1e",
			edits: []edit{{"terraform/transfer.go", "began.Add(grace + time.Duration(n)*time.Second/leastRate)", "began.Add(grace + time.Duration(n)*time.Minute)"}},
			pkg:   "terraform", tests: []string{"TestTransfersHaveALeastRate"},
		},
		{
			number: 1208, bug: "the states of one user on their way take the memory of all others", where: "–",
			edits: []edit{{"terraform/transfer.go", "b.uploads.Enter(func() { _ = c.SetReadDeadline(past) }, clientOf(ctx)...)", "b.uploads.Enter(func() { _ = c.SetReadDeadline(past) })"}},
			pkg:   "terraform", tests: []string{"TestUploadsAreShared"},
		},
		{
			number: 1209, bug: "the password of a client at work can be guessed without a delay", where: "ours until 28 November",
			edits: []edit{{"internal/htpasswd/gate.go", "\tattempt, wait := g.guesses.Begin(name, address)\n\tif wait > 0 {\n\t\treturn User{}, Wait(wait)", "\tif user, ok := u.proven(name, password); ok {\n\t\treturn user, nil\n\t}\n\tattempt, wait := g.guesses.Begin(name, address)\n\tif wait > 0 {\n\t\treturn User{}, Wait(wait)"}},
			pkg:   "terraform", tests: []string{"TestGuessesHaveToWait"},
		},
		{
			number: 1210, bug: "a login waits for the hashes of guessers", where: "holdfast until b1e0e1e",
			edits: []edit{{"internal/htpasswd/gate.go", "if (others > 0) == (lane == guessing) && (first < 0 || others <= least) {", "if first < 0 && least == 0 {"}},
			pkg:   "internal/htpasswd", tests: []string{"TestALoginDoesNotWaitForTheHashesOfGuessers"},
		},
		{
			number: 1211, bug: "guesses by SASL and digest need not wait", where: "holdfast until b1e0e1e",
			edits: []edit{{"zkserver/auth.go", "\t}, wait == 0\n", "\t}, true\n"}},
			pkg:   "zkserver", tests: []string{"TestGuessesHaveToWait"},
		},
		{
			number: 1212, bug: "a browser with many tabs keeps other browsers of its user from their events", where: "holdfast until b1e0e1e",
			edits: []edit{{"ui/hub.go", "append(clientOf(r), \"address \"", "append([]string(nil), \"address \""}},
			pkg:   "ui", tests: []string{"TestOneBrowserKeepsNoOtherFromItsEvents"},
		},
		{
			number: 1213, bug: "a user who logs in again and again ends the logins of others", where: "holdfast until b1e0e1e",
			edits: []edit{{"ui/access_login.go", "count[l.name] > count[first.name] || count[l.name] == count[first.name] && l.expires", "l.expires"}},
			pkg:   "ui", tests: []string{"TestLoginsOfOneUserEndNoOthers"},
		},
		{
			number: 1214, bug: "a user with 520 connections keeps others out", where: "holdfast until b1e0e1e",
			edits: []edit{{"internal/daemon/admission.go", "append(user[:len(user):len(user)], \"address \"+c.network.String())...)", "\"everybody\")"}},
			pkg:   "internal/daemon", tests: []string{"TestOneClientKeepsNobodyOut"},
		},
		{
			number: 1215, bug: "a batch takes all requests that wait, so the owner is held for as long as there are some", where: "–",
			edits: []edit{{"zkserver/internal/sched/sched.go", "case s.taken && s.work+w.size > Full:", "case s.taken && s.work+w.size < 0:"}},
			pkg:   "zkserver", tests: []string{"TestNoBatchHoldsTheOwnerLong"}, args: []string{"-batches=20"},
		},
	}
}
