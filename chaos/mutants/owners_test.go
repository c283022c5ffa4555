package mutants

// ofOwners are bugs of the records of the processes that sessions belong to, which crash images find.
func ofOwners() []mutant {
	const pkg = "zkserver"
	tests := []string{"TestOwnersOutliveCrashes"}
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
	}
}
