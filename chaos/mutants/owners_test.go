package mutants

// ofOwners are bugs of the processes that sessions belong to. Crash images find those of the records, and a simulation the
// others.
func ofOwners() []mutant {
	const pkg = "zkserver"
	tests, simulated := []string{"TestOwnersOutliveCrashes"}, []string{"TestSimulatedProcesses"}
	return []mutant{
		{
			number: 1512, bug: "the record of a session has its client alone, without the watchdog", where: "–",
			edits: []edit{{"zkserver/session.go", "AppendBytes(record, sess.group.Append(nil))", "AppendBytes(record, proc.Group{Boot: sess.group.Boot, Namespace: sess.group.Namespace, IDs: sess.group.IDs[:1]}.Append(nil))"}},
			pkg:   pkg, tests: tests,
		},
		{
			number: 1513, bug: "that another process attaches a session is not written", where: "–",
			edits: []edit{{"zkserver/session.go", "\t\tsess.timeout, sess.group = timeout, group\n\t\ts.saveSession(sess)\n", "\t\tsess.timeout, sess.group = timeout, group\n"}},
			pkg:   pkg, tests: tests,
		},
		{
			number: 1514, bug: "after a restart, a session ends with its client and does not wait for the watchdog", where: "–",
			edits: []edit{{"zkserver/session.go", "\t\t\tsess.group = &g\n", "\t\t\tg.IDs = g.IDs[:1]\n\t\t\tsess.group = &g\n"}},
			pkg:   pkg, tests: tests,
		},
		{
			number: 1515, bug: "after a restart, nobody waits for the end of processes", where: "–",
			edits: []edit{{"zkserver/session.go", "\t\t\tsess.group = &g\n", "\t\t\t_ = g\n"}},
			pkg:   pkg, tests: tests,
		},
		{
			number: 1520, bug: "a session ends with its last connection, whether its process lives or not", where: "–",
			edits: []edit{{"zkserver/bound.go", "if err := g.Wait(ctx, s.deaths.turn); err == nil {", "if err := error(nil); err == nil {\n\t\t\t_ = g"}},
			pkg:   pkg, tests: simulated,
		},
		{
			number: 1521, bug: "a session ends with its client and does not wait for the watchdog", where: "–",
			edits: []edit{{"zkserver/bound.go", "\treturn &g\n", "\tg.IDs = g.IDs[:1]\n\treturn &g\n"}},
			pkg:   pkg, tests: simulated,
		},
		{
			number: 1522, bug: "a process is taken for an earlier one with its id", where: "–",
			edits: []edit{{"zkserver/session.go", "return a.Equal(*b)", "return len(a.IDs) == len(b.IDs) && a.IDs[0].PID == b.IDs[0].PID"}},
			pkg:   pkg, tests: simulated,
		},
		{
			number: 1523, bug: "a client is believed whose process the kernel does not confirm", where: "–",
			edits: []edit{{"zkserver/bound.go", "\t\t\terr = nc.Confirm(g)\n", "\t\t\t_ = nc.Confirm(g)\n"}},
			pkg:   pkg, tests: simulated,
		},
		{
			number: 1524, bug: "a session that has moved ends with its former process", where: "–",
			edits: []edit{{"zkserver/session.go", "\tsess.unwatch()\n\tsess.touched = s.owner.now\n", "\tsess.touched = s.owner.now\n"}},
			pkg:   pkg, tests: simulated,
		},
	}
}
