package mutants

// ofTheLease are those of the proof that a session lives.
func ofTheLease() []mutant {
	return []mutant{
		{
			number: 155, bug: "a connection that says that the session is over is taken for one that broke", where: "–",
			edits: []edit{{"zk/conn.go", "\tif errors.Is(err, ErrSessionExpired) {\n\t\tc.s.end(err)\n\t}\n\tc.fail(err)", "\tc.fail(err)"}},
			pkg:   "zk", tests: []string{"TestSessionEndsAtOnceWhenItsConnectionSaysSo"},
		},
		{
			number: 156, bug: "a dial that says that the session is over is tried again", where: "–",
			edits: []edit{{"zk/client.go", "if req.SessionID != 0 && errors.Is(err, ErrSessionExpired) {", "if err == ErrSessionExpired {"}},
			pkg:   "zk", tests: []string{"TestSessionEndsAtOnceWhenADialSaysSo"},
		},
		{
			number: 157, bug: "one committed write is taken for proof that the leader has heard of the session lately", where: "our own bridge, until 3a97b7e",
			edits: []edit{{"zk/proof.go", "\tswitch {\n\tcase lasts(p.touched):",
				"\tif !p.step.sent.IsZero() {\n\t\tp.touch(p.step.sent.Add(-max(timeout/5, pingEvery(p.tick)+500*time.Millisecond)))\n\t}\n\tswitch {\n\tcase lasts(p.touched):"}},
			pkg: "zk", tests: []string{"FuzzProofIsNeverAheadOfTheLeader"},
		},
		{
			number: 696, bug: "a lease begins on a proof that is too old to last until the third probe", where: "our own, until 87276c9",
			edits: []edit{{"zk/proof.go", "\t\tleast += 2 * probeEvery(p.tick, timeout)\n", ""}},
			pkg:   "zk", tests: []string{"TestLeaseLeavesItsHolderTimeWhileTheEnsembleAnswers"},
		},
		{
			number: 697, bug: "each probe is sent one round trip too early to count as a step", where: "our own, until 87276c9",
			edits: []edit{{"zk/proof.go", "soonest := p.step.acked.Add(pingEvery(p.tick))", "soonest := p.step.acked.Add(p.tick / 2)"}},
			pkg:   "zk", tests: []string{"TestLeaseLeavesItsHolderTimeWhileTheEnsembleAnswers"},
		},
		{
			number: 698, bug: "a holder's own writes put the probes off", where: "our own, until 87276c9",
			edits: []edit{{"zk/proof.go", "\tif isStep {\n\t\tp.step = c\n\t}\n", "\tp.step = c\n"}},
			pkg:   "zk", tests: []string{"TestLeaseLeavesItsHolderTimeWhileTheEnsembleAnswers"},
		},
		{
			number: 699, bug: "a lease on a slow connection attaches the session again and again", where: "–",
			edits: []edit{{"zk/lease.go", "!t.After(s.warm) || l.reattached", "!t.After(s.warm)"}},
			pkg:   "zk", tests: []string{"TestLeaseAttachesOnceOnASlowConnection"},
		},
		{
			number: 158, bug: "two writes in a row are taken for three", where: "–",
			edits: []edit{{"zk/proof.go", "p.touch(p.commits[first].sent)", "p.touch(p.commits[second].sent)"}},
			pkg:   "zk", tests: []string{"FuzzProofIsNeverAheadOfTheLeader", "TestProofTakesTwoStepsBack"},
		},
		{
			number: 159, bug: "an attach proves the session with no write behind it", where: "ZooKeeper's deposed leaders",
			edits: []edit{{"zk/proof.go", "p.attached, p.commits, p.step = sent, p.commits[:0], commit{}", "p.attached, p.commits, p.step = sent, p.commits[:0], commit{}\n\tp.touch(sent)"}},
			pkg:   "zk", tests: []string{"FuzzProofIsNeverAheadOfTheLeader", "TestProofTakesTwoStepsBack"},
		},
		{
			number: 160, bug: "a write on the connection before confirms an attach", where: "ZooKeeper's deposed leaders",
			edits: []edit{{"zk/proof.go", "p.attached, p.commits, p.step = sent, p.commits[:0], commit{}", "if !p.step.sent.IsZero() {\n\t\tp.touch(sent)\n\t}\n\tp.attached, p.commits, p.step = sent, p.commits[:0], commit{}"}},
			pkg:   "zk", tests: []string{"FuzzProofIsNeverAheadOfTheLeader"},
		},
		{
			number: 161, bug: "whether a server is alone is asked once for a session", where: "our own, until 3a97b7e",
			edits: []edit{
				{"zk/conn.go", "\treturn &conn{\n", "\tonce := &conn{\n"},
				{"zk/conn.go", "wrote: t, heard: time.Now(),\n\t}\n", "wrote: t, heard: time.Now(),\n\t}\n\tif once.mode = s.known; once.mode != modeUnknown {\n\t\tonce.asked = true\n\t}\n\treturn once\n"},
				{"zk/session.go", "\ts.askMode()\n\ts.queue = append(s.queue, rest...)", "\tif !c.asked {\n\t\ts.askMode()\n\t}\n\ts.queue = append(s.queue, rest...)"},
				{"zk/session.go", "\tmodeKnown   chan struct{}", "\tknown       ensembleMode\n\tmodeKnown   chan struct{}"},
				{"zk/session.go", "\t\ts.modeKnown = make(chan struct{})\n", "\t\ts.known = c.mode\n"},
			},
			pkg: "zk", tests: []string{"TestServerThatJoinsAnEnsembleIsNotBelievedAnyMore"},
		},
		{
			number: 162, bug: "what was proven is forgotten with the connection", where: "–",
			edits: []edit{{"zk/session.go", "\ts.proof.resumed(sent)\n", "\ts.proof.touched = time.Time{}\n\ts.proof.resumed(sent)\n"}},
			pkg:   "zk", tests: []string{"TestReconnectsToAServerAloneDoNotEndALease"},
		},
		{
			number: 163, bug: "a planned re-attach closes the connection before all is answered", where: "–",
			edits: []edit{{"zk/reattach.go", "return c.s.reattaching && c.pending.first() == nil && c.pinged.IsZero()", "return c.s.reattaching"}},
			pkg:   "zk", tests: []string{"TestPlannedReattachLosesNoRequest"},
		},
		{
			number: 164, bug: "a planned re-attach is counted as a loss", where: "–",
			edits: []edit{{"zk/session.go", "planned = c.cause == errReattach\n", "planned = c.cause == nil\n"}},
			pkg:   "zk", tests: []string{"TestPlannedReattachIsNoLossInTraceAndLog", "TestPlannedReattachGoesToTheSameServerFirst"},
		},
		{
			number: 165, bug: "a client that is closed while its session attaches again leaves the session to the server", where: "–",
			edits: []edit{{"zk/reattach.go", "context.WithCancel(context.Background())", "context.WithCancel(s.client.ctx)"}},
			pkg:   "zk", tests: []string{"TestCloseDuringAPlannedReattachEndsTheSessionAtTheServer"},
		},
		{
			number: 166, bug: "the next in line proves its session only when its turn has come", where: "our own, until 3a97b7e",
			edits: []edit{{"internal/queue/await.go", `if p.Shared || p.ahead.Far != "" {`, "if true {"}},
			pkg:   "internal/queue", tests: []string{"TestNextInLineIsProvenBeforeItsTurn"},
		},
		{
			number: 167, bug: "everybody in a queue proves its session", where: "–",
			edits: []edit{{"internal/queue/await.go", `if p.Shared || p.ahead.Far != "" {`, "if false {"}},
			pkg:   "internal/queue", tests: []string{"TestNextInLineIsProvenBeforeItsTurn", "TestReadersInLineProveNothing"},
		},
		{
			number: 168, bug: "a wait that ends keeps its lease", where: "–",
			edits: []edit{{"internal/queue/wait.go", "\t\tp.lease.Release()\n\t\tp.lease = nil\n", ""}},
			pkg:   "internal/queue", tests: []string{"TestNextInLineLeavesNoLease"},
		},
		{
			number: 169, bug: "the time to connect is shared by the names of servers, not by their addresses", where: "our own, until 3a97b7e",
			edits: []edit{{"zk/rotation.go", "time.Duration(2+c.rotation.addresses())", "time.Duration(2+len(c.rotation.servers))"}},
			pkg:   "zk", tests: []string{"TestDeadAddressesOfANameLeaveTimeForTheOthers"},
		},
		{
			number: 170, bug: "a name is left to the dialer, which tries its first address only", where: "our own, until 3a97b7e",
			edits: []edit{{"zk/client.go", "newRotation(cfg.Servers, resolve)", "newRotation(cfg.Servers, resolve && false)"}},
			pkg:   "zk", tests: []string{"TestDeadAddressesOfANameLeaveTimeForTheOthers"},
		},
		{
			number: 171, bug: "a certificate has to be for the address instead of the name", where: "–",
			edits: []edit{{"zk/client.go", "c.cfg.TLS, t.host)", "c.cfg.TLS, t.addr)"}},
			pkg:   "zk", tests: []string{"TestTLSVerifiesTheNameAndNotItsAddress"},
		},
		{
			number: 177, bug: "a lease is granted without a connection", where: "holdfast until e50c4e0",
			edits: []edit{{"zk/lease.go", "\tcase s.conn == nil: // disconnected", "\tcase false: // disconnected"}},
			pkg:   "zk", tests: []string{"TestLeaseIsNotGrantedWithoutAConnection"},
		},
		{
			number: 185, bug: "addresses that are left from the search before come first", where: "holdfast until e50c4e0",
			edits: []edit{{"zk/rotation.go", "\tr.left = nil\n", ""}},
			pkg:   "zk", tests: []string{"TestNameIsLookedUpAgainAfterAConnectionIsLost"},
		},
		{
			number: 186, bug: "nothing is probed before the server has told its mode", where: "holdfast until e50c4e0",
			edits: []edit{{"zk/lease.go", "mode == modeUnknown && len(s.leases) == 0:", "mode == modeUnknown:"}},
			pkg:   "zk", tests: []string{"TestLeaseGoesOnWhileTheModeIsUnknown"},
		},
	}
}
