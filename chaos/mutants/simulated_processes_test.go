package mutants

// ofSimulatedProcesses are bugs of the processes that sessions belong to. The simulation of the locks on one machine finds
// them.
func ofSimulatedProcesses() []mutant {
	const pkg = "chaos"
	tests := []string{"TestSimulationOfProcesses"}
	return []mutant{
		{
			number: 1680, bug: "a session ends with its last connection, whether its process lives or not, in the simulation", where: "–",
			edits: []edit{{"zkserver/bound.go", "if err := g.Wait(ctx, s.deaths.turn); err == nil {", "if err := error(nil); err == nil {\n\t\t\t_ = g"}},
			pkg:   pkg, tests: tests,
		},
		{
			number: 1681, bug: "a session ends with its client and does not wait for the watchdog, in the simulation", where: "–",
			edits: []edit{{"zkserver/bound.go", "\treturn &g\n", "\tg.IDs = g.IDs[:1]\n\treturn &g\n"}},
			pkg:   pkg, tests: tests,
		},
		{
			number: 1682, bug: "a process is taken for an earlier one with its id, in the simulation", where: "–",
			edits: []edit{{"zkserver/session.go", "return a.Equal(*b)", "return len(a.IDs) == len(b.IDs) && a.IDs[0].PID == b.IDs[0].PID"}},
			pkg:   pkg, tests: tests,
		},
		{
			number: 1683, bug: "a client is believed whose process the kernel does not confirm, in the simulation", where: "–",
			edits: []edit{{"zkserver/bound.go", "\t\t\terr = nc.Confirm(g)\n", "\t\t\t_ = nc.Confirm(g)\n"}},
			pkg:   pkg, tests: tests,
		},
		{
			number: 1684, bug: "a session that has moved ends with its former process, in the simulation", where: "–",
			edits: []edit{{"zkserver/session.go", "\tsess.unwatch()\n\tsess.touched = s.owner.now\n", "\tsess.touched = s.owner.now\n"}},
			pkg:   pkg, tests: tests,
		},
		{
			number: 1685, bug: "the next host does not wait for the end of processes, in the simulation", where: "–",
			edits: []edit{{"zkserver/session.go", "\t\t\tsess.group = &g\n", "\t\t\t_ = g\n"}},
			pkg:   pkg, tests: tests,
		},
		{
			number: 1686, bug: "a client forgets its watchdog when it connects again", where: "–",
			edits: []edit{{"zk/share.go", "\treturn c.group.Append(nil)\n", "\tg := *c.group\n\tg.IDs = g.IDs[:1]\n\treturn g.Append(nil)\n"}},
			pkg:   pkg, tests: tests,
		},
		{
			number: 1687, bug: "the server of the connection in use is not told of a watchdog", where: "–",
			edits: []edit{{"zk/share.go", "\tcase !s.bound:\n", "\tcase !s.bound || len(named) > 0:\n"}},
			pkg:   pkg, tests: tests,
		},
	}
}
