package mutants

// ofEarlyEnds are bugs of servers that end the sessions of living processes, or keep those of the dead, see internal/proc.
func ofEarlyEnds() []mutant {
	const pkg = "zklocal"
	return []mutant{
		{
			number: 1560, bug: "the next host takes the process ids of another container for its own", where: "–",
			edits: []edit{{"internal/proc/proc_linux.go", "resume func(), err error)) error {\n\tif err := g.isHere(); err != nil {", "resume func(), err error)) error {\n\tif err := g.isHere(); err != nil && len(g.IDs) == 0 {"}},
			pkg:   pkg, tests: []string{"TestContainersWithOneDirectory"},
		},
		{
			number: 1561, bug: "a host in a time namespace compares start times that are shifted", where: "–",
			edits: []edit{{"internal/proc/proc_linux.go", "case err != nil || inode != initial:", "case err != nil || inode == 0:"}},
			pkg:   pkg, tests: []string{"TestNextHostInOtherNamespaces"},
		},
		{
			number: 1562, bug: "the next host keeps a session whose process is dead, since another one has its id", where: "–",
			edits: []edit{{"internal/proc/proc_linux.go", "hasEnded(fd) || err == nil && start != id.Start {", "hasEnded(fd) || err == nil && start < id.Start {"}},
			pkg:   pkg, tests: []string{"TestReusedProcessIDs"},
		},
		{
			number: 1563, bug: "a process that is stopped counts as dead", where: "–",
			edits: []edit{{"internal/proc/proc_linux.go", "\tif start, err := startOf(int(id.PID)); hasEnded(fd) ||",
				"\ttext, _ := os.ReadFile(fmt.Sprintf(\"/proc/%d/stat\", id.PID))\n\tif start, err := startOf(int(id.PID)); bytes.Contains(text, []byte(\") T \")) || hasEnded(fd) ||"}},
			pkg: pkg, tests: []string{"TestNoLivingProcessLosesItsSession"},
		},
		{
			number: 1564, bug: "a session belongs to the relay before its client", where: "–",
			edits: []edit{{"internal/proc/proc_linux.go", "\terr = raw.Control(func(fd uintptr) { told = g.IDs[0].isPeer(int(fd)) })",
				"\terr = raw.Control(func(fd uintptr) {\n\t\tif cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {\n\t\t\tg.IDs[0].PID = cred.Pid\n" +
					"\t\t\tg.IDs[0].Start, _ = startOf(int(cred.Pid))\n\t\t}\n\t\ttold = g.IDs[0].isPeer(int(fd))\n\t})"}},
			pkg: pkg, tests: []string{"TestClientsOfARelayKeepTheirSessions"},
		},
		{
			number: 1565, bug: "the server takes the process ids of a client in another pid namespace for its own", where: "–",
			edits: []edit{{"internal/proc/proc_linux.go", "case g.Boot != h.Boot || g.Namespace != h.Namespace:", "case g.Boot != h.Boot:"},
				{"internal/proc/proc_linux.go", "\tif cred.Pid != id.PID {", "\tif cred.Pid != id.PID && false {"},
				{"internal/proc/proc_linux.go", "\tcase start != id.Start:", "\tcase start != id.Start && false:"}},
			pkg: pkg, tests: []string{"TestClientsInOtherNamespaces"},
		},
		{
			number: 1566, bug: "the watchdog of a lock command that is killed leaves its session to the timeout", where: "ours until 28 November",
			edits: []edit{{"internal/cli/hold/lock.go", "\their.inherits(t.Will(t.hold.SessionID()))\n", "\their.inherits(\"\")\n"}},
			pkg:   "cmd/holdfast", tests: []string{"TestScripts"}, args: []string{"-run=^TestScripts$/^crash_tcp$"},
		},
	}
}
